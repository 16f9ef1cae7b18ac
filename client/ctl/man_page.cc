// Turns the tree into mdoc, and the hidden command by which the build has it do that.
#include "client/ctl/man_page.h"

#include <algorithm>
#include <fstream>
#include <iterator>
#include <memory>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "client/ctl/errors.h"
#include "client/ctl/exit_code.h"
#include "client/ctl/invocation.h"

namespace stageload::ctl {
namespace {

constexpr char kMark[] = ".\\\" COMMANDS\n";

// A line that begins with a dot or a quote would be a request.
std::string Line(const std::string& text) {
  const std::string escaped = absl::StrReplaceAll(text, {{"\\", "\\e"}});
  const bool is_request = !escaped.empty() && (escaped[0] == '.' || escaped[0] == '\'');
  return absl::StrCat(is_request ? "\\&" : "", escaped, "\n");
}

// An argument of a macro, whatever is in it.
std::string Word(const std::string& text) {
  return absl::StrCat("\\&",
                      absl::StrReplaceAll(text, {{"\\", "\\e"}, {"\"", "\\(dq"}, {" ", "\\ "}}));
}

// Each sentence on a line of its own, as roff wants it for the space between them.
std::string Sentences(const std::string& text) {
  std::string lines;
  std::size_t begin = 0;
  for (std::size_t i = 0; i + 2 < text.size(); ++i) {
    if (text[i] != '.' || text[i + 1] != ' ' || absl::ascii_islower(text[i + 2])) continue;
    lines += Line(text.substr(begin, i + 1 - begin));
    begin = i + 2;
  }
  return lines + Line(text.substr(begin));
}

// Of a command: its help has no capital at the begin and no stop at the end. What is said of an
// option is left as it is, since it may begin with a word to be written so.
std::string Sentence(std::string text) {
  absl::StripAsciiWhitespace(&text);
  if (text.empty()) return "";
  text[0] = absl::ascii_toupper(text[0]);
  if (text.back() != '.') text += '.';
  return Sentences(text);
}

// Paragraphs, and as they are those lines that are indented.
std::string Paragraphs(const std::string& text) {
  std::string out, paragraph;
  bool literal = false, apart = true;
  const auto end_paragraph = [&] {
    if (!paragraph.empty()) absl::StrAppend(&out, apart ? ".Pp\n" : "", Sentences(paragraph));
    if (!paragraph.empty()) apart = true;
    paragraph.clear();
  };
  for (const std::string& line : std::vector<std::string>(absl::StrSplit(text, '\n'))) {
    const bool indented = absl::StartsWith(line, "  ");
    if (indented != literal) {
      end_paragraph();
      out += indented ? ".Bd -literal -offset indent\n" : ".Ed\n";
      literal = indented;
    }
    if (indented) {
      out += Line(line.substr(2));
    } else if (line.empty()) {
      end_paragraph();
    } else {
      absl::StrAppend(&paragraph, paragraph.empty() ? "" : " ", line);
    }
  }
  end_paragraph();
  return out + (literal ? ".Ed\n" : "");
}

std::string TypeOf(const CLI::Option& option) {
  return option.get_items_expected_max() > 0 ? option.get_type_name() : "";
}

// ".It Fl f , Fl -follow Ar X"
std::string Item(const CLI::Option& option) {
  std::string names;
  for (const std::string& name : option.get_snames()) {
    absl::StrAppend(&names, names.empty() ? "" : " , ", "Fl ", Word(name));
  }
  for (const std::string& name : option.get_lnames()) {
    absl::StrAppend(&names, names.empty() ? "" : " , ", "Fl ", Word("-" + name));
  }
  const std::string type = TypeOf(option);
  return absl::StrCat(".It ", names, type.empty() ? "" : " Ar ", type.empty() ? "" : Word(type),
                      "\n", Sentences(option.get_description()));
}

// Those to be listed, in their order and by their groups.
std::string OptionList(const CLI::App& app) {
  std::string items;
  for (const CLI::Option* option : app.get_options({})) {
    if (option->get_positional() || option->get_group().empty()) continue;
    if (option == app.get_help_ptr()) continue;
    items += Item(*option);
  }
  return items.empty() ? "" : absl::StrCat(".Bl -tag -width indent\n", items, ".El\n");
}

std::string PositionalList(const CLI::App& app) {
  std::string items;
  for (const CLI::Option* option : app.get_options({})) {
    if (!option->get_positional()) continue;
    absl::StrAppend(&items, ".It Ar ", Word(option->get_type_name()), "\n",
                    Sentences(option->get_description()));
  }
  return items.empty() ? "" : absl::StrCat(".Bl -tag -width indent\n", items, ".El\n");
}

bool HasOptions(const CLI::App& app) { return !OptionList(app).empty(); }

std::string Usage(const CLI::App& app, const std::string& name, bool takes_command) {
  std::string usage = absl::StrCat(".Nm Cm ", name, "\n");
  if (HasOptions(app)) usage += ".Op Ar option ...\n";
  for (const CLI::Option* option : app.get_options({})) {
    if (!option->get_positional()) continue;
    absl::StrAppend(&usage, option->get_required() ? ".Ar " : ".Op Ar ",
                    Word(option->get_type_name()),
                    option->get_items_expected_max() > 1 ? " ...\n" : "\n");
  }
  if (takes_command) usage += ".Op Fl \\&-\n.Ar command Op Ar argument ...\n";
  return usage;
}

class CommandPages {
 public:
  CommandPages(const CLI::App& root, const std::vector<const CLI::App*>& takers)
      : common_footer_(root.get_footer()), takers_(takers) {}

  void Add(const CLI::App& app, const std::string& above) {
    if (app.get_group().empty()) return;
    const std::string name = absl::StrCat(above, above.empty() ? "" : " ", app.get_name());
    const bool takes = std::find(takers_.begin(), takers_.end(), &app) != takers_.end();
    if (app.get_subcommands({}).empty()) {
      absl::StrAppend(&text_, ".Ss ", name, "\n", Usage(app, name, takes), ".Pp\n",
                      Sentence(app.get_description()), PositionalList(app), OptionList(app),
                      Paragraphs(Footer(app)));
    }
    for (const CLI::App* each : app.get_subcommands({})) Add(*each, name);
  }
  const std::string& text() const { return text_; }

 private:
  // Without what stands below every command's.
  std::string Footer(const CLI::App& app) const {
    std::string footer = app.get_footer();
    if (absl::EndsWith(footer, common_footer_)) {
      footer.resize(footer.size() - common_footer_.size());
    }
    absl::StripAsciiWhitespace(&footer);
    return footer;
  }

  std::string common_footer_;
  const std::vector<const CLI::App*>& takers_;
  std::string text_;
};

// Writes the template with the commands in the place of its mark.
absl::Status WriteManPage(const std::string& commands, const std::string& from,
                          const std::string& to) {
  std::ifstream in(from, std::ios::binary);
  std::string page(std::istreambuf_iterator<char>(in), {});
  if (!in) return absl::NotFoundError(absl::StrCat("cannot read ", from));
  const std::size_t mark = page.find(kMark);
  if (mark == std::string::npos) {
    return absl::InvalidArgumentError(absl::StrCat(from, " has no line ", kMark));
  }
  page.replace(mark, sizeof(kMark) - 1, commands);
  std::ofstream out(to, std::ios::binary);
  out << page;
  out.close();
  return out ? absl::OkStatus() : absl::UnavailableError(absl::StrCat("cannot write ", to));
}

}  // namespace

std::string ManPageCommands(const CLI::App& root, const std::vector<const CLI::App*>& takers) {
  CommandPages pages(root, takers);
  for (const CLI::App* each : root.get_subcommands({})) pages.Add(*each, "");
  return absl::StrCat(OptionList(root), pages.text());
}

void AddManPage(CLI::App& app, Invocation& invocation) {
  CLI::App* command = app.add_subcommand("man-page", "for the build");
  command->group("");
  const auto from = std::make_shared<std::string>(), to = std::make_shared<std::string>();
  command->add_option("--template", *from, "with a line for the commands")->required();
  command->add_option("--output", *to, "where to")->required();
  command->callback([=, &app, &invocation] {
    invocation.action = [=, &app, &invocation] {
      const absl::Status status = WriteManPage(ManPageCommands(app, invocation.takers), *from, *to);
      return status.ok() ? kExitOk : Fail(status);
    };
  });
}

}  // namespace stageload::ctl
