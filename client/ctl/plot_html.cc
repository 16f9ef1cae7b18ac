#include "client/ctl/plot_html.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_replace.h"
#include "client/ctl/json.h"
#include "client/ctl/plot_svg.h"

namespace stageload::ctl {
namespace {

constexpr char kStyle[] = R"css(
:root {
  color-scheme: light dark;
  --paper: #ffffff; --text: #1f2328; --muted: #59636e; --grid: #d8dee4; --frame: #818b98;
  --footprint: #0b5cad; --swap: #b93b05; --level: #59636e; --mark: #818b98;
  --stage0: #f1f3f5; --stage1: #e3eefa; --stage2: #fbf0dc; --stage3: #e4f3e6; --stage4: #f1e7f8;
  --stage5: #fbe6ea;
}
@media (prefers-color-scheme: dark) {
  :root {
    --paper: #0d1117; --text: #e6edf3; --muted: #9da7b3; --grid: #30363d; --frame: #6e7681;
    --footprint: #62b0ff; --swap: #ff9b5e; --level: #9da7b3; --mark: #6e7681;
    --stage0: #161b22; --stage1: #12243a; --stage2: #2e2612; --stage3: #14291a; --stage4: #281d33;
    --stage5: #331a20;
  }
}
body { margin: 1rem auto; max-width: 1400px; padding: 0 1rem; background: var(--paper);
  color: var(--text); font: 14px/1.45 system-ui, -apple-system, "Segoe UI", sans-serif; }
svg { width: 100%; height: auto; display: block; font-family: inherit; }
.paper { fill: var(--paper); }
.text { fill: var(--text); } .muted { fill: var(--muted); }
text.swap { fill: var(--swap); }
.boxed { paint-order: stroke; stroke: var(--paper); stroke-width: 4px; stroke-linejoin: round; }
.line { fill: none; stroke-linejoin: round; }
.line.grid { stroke: var(--grid); } .line.frame { stroke: var(--frame); }
.line.mark { stroke: var(--mark); } .line.footprint { stroke: var(--footprint); }
.line.swap { stroke: var(--swap); } .line.level { stroke: var(--level); }
.stage0 { fill: var(--stage0); } .stage1 { fill: var(--stage1); } .stage2 { fill: var(--stage2); }
.stage3 { fill: var(--stage3); } .stage4 { fill: var(--stage4); } .stage5 { fill: var(--stage5); }
#picture { position: relative; }
#cursor { position: absolute; width: 1px; background: var(--text); pointer-events: none; }
#values { position: absolute; pointer-events: none; padding: .4rem .6rem; white-space: pre;
  background: var(--paper); color: var(--text); border: 1px solid var(--frame);
  border-radius: 4px; font-variant-numeric: tabular-nums; }
details { margin: .5rem 0; } td { padding: .1rem .8rem .1rem 0; vertical-align: top; }
td:first-child { text-align: right; white-space: nowrap; font-variant-numeric: tabular-nums; }
)css";

// Shows the sample that is nearest to the pointer.
constexpr char kScript[] = R"js(
const data = JSON.parse(document.getElementById('data').textContent);
const picture = document.getElementById('picture');
const svg = picture.querySelector('svg');
const cursor = document.getElementById('cursor');
const values = document.getElementById('values');
function size(bytes) {
  const units = ['B', 'KiB', 'MiB', 'GiB', 'TiB'];
  let i = 0;
  while (Math.abs(bytes) >= 1024 && i + 1 < units.length) { bytes /= 1024; ++i; }
  return bytes.toFixed(i === 0 ? 0 : 2) + ' ' + units[i];
}
function nearest(samples, t) {
  let low = 0, high = samples.length - 1;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (samples[middle][0] < t) low = middle + 1; else high = middle;
  }
  return low > 0 && t - samples[low - 1][0] < samples[low][0] - t ? low - 1 : low;
}
function hide() { cursor.hidden = values.hidden = true; }
picture.addEventListener('pointerleave', hide);
picture.addEventListener('pointermove', event => {
  const box = svg.getBoundingClientRect();
  const scale = box.width / data.width;
  const x = (event.clientX - box.left) / scale, y = (event.clientY - box.top) / scale;
  const panel = data.panels.find(p => x >= p.x && x <= p.x + p.width && y >= p.y &&
                                      y <= p.y + p.height);
  if (!panel) return hide();
  const sample = panel.samples[nearest(panel.samples, (x - panel.x) / panel.width * data.seconds)];
  const [t, footprint, swap, level] = sample;
  const lines = [t.toFixed(1) + ' s'];
  const stage = panel.stages.filter(s => t >= s[1]).pop();
  if (stage) lines[0] += '  ' + stage[0];
  if (footprint !== null) lines.push('footprint  ' + size(footprint));
  if (swap !== null) lines.push('swap used  ' + size(swap));
  if (level !== null) lines.push('level  ' + level + ' %');
  values.textContent = lines.join('\n');
  cursor.hidden = values.hidden = false;
  const at = (panel.x + t / data.seconds * panel.width) * scale;
  cursor.style.left = at + 'px';
  cursor.style.top = panel.y * scale + 'px';
  cursor.style.height = panel.height * scale + 'px';
  values.style.top = (panel.y + 8) * scale + 'px';
  const right = at + 12 + values.offsetWidth > box.width;
  values.style.left = (right ? at - 12 - values.offsetWidth : at + 12) + 'px';
});
)js";

template <typename Value, typename Print>
Json OrNull(const std::optional<Value>& value, Print print) {
  return value ? Json(print(*value)) : Json();
}

Json PanelJson(const PlotPanel& panel) {
  Json samples = Json::array();
  for (const PlotSample& sample : panel.samples) {
    const auto count = [](Bytes bytes) { return bytes.count(); };
    samples.push_back(
        Json::array({sample.t, OrNull(sample.footprint, count), OrNull(sample.swap, count),
                     OrNull(sample.level, [](Percent level) { return level.value; })}));
  }
  Json stages = Json::array();
  for (const TraceStage& stage : panel.stages) {
    stages.push_back(Json::array({stage.name, stage.begin}));
  }
  return Json{{"x", panel.area.corner.x},      {"y", panel.area.corner.y},
              {"width", panel.area.width},     {"height", panel.area.height},
              {"samples", std::move(samples)}, {"stages", std::move(stages)}};
}

// Nothing in it can end the element that it stands in.
std::string ScriptData(const PlotPicture& picture) {
  Json panels = Json::array();
  for (const PlotPanel& panel : picture.panels) panels.push_back(PanelJson(panel));
  const Json data{
      {"width", picture.width}, {"seconds", picture.seconds}, {"panels", std::move(panels)}};
  return absl::StrReplaceAll(data.dump(-1, ' ', true, Json::error_handler_t::replace),
                             {{"<", "\\u003c"}, {">", "\\u003e"}, {"&", "\\u0026"}});
}

std::string MarkTables(const PlotPicture& picture) {
  std::string html;
  for (const PlotPanel& panel : picture.panels) {
    if (panel.marks.empty()) continue;
    absl::StrAppend(&html, "<details><summary>Marks of ", EscapedMarkup(panel.title), " (",
                    panel.marks.size(), ")</summary><table>\n");
    for (const PlotMark& mark : panel.marks) {
      absl::StrAppend(&html, "<tr><td>", absl::StrFormat("%.3f s", mark.t), "</td><td>",
                      EscapedMarkup(mark.text), "</td></tr>\n");
    }
    html += "</table></details>\n";
  }
  return html;
}

std::string Title(const PlotPicture& picture) {
  std::string title = "Memory:";
  for (const PlotPanel& panel : picture.panels) absl::StrAppend(&title, " ", panel.title);
  return title;
}

}  // namespace

std::string HtmlPage(const PlotPicture& picture) {
  return absl::StrCat(
      "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n",
      "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src "
      "'unsafe-inline'; script-src 'unsafe-inline'\">\n",
      "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n<title>",
      EscapedMarkup(Title(picture)), "</title>\n<style>", kStyle, "</style>\n</head>\n<body>\n",
      "<div id=\"picture\">\n", SvgElement(picture),
      "<div id=\"cursor\" hidden></div><div id=\"values\" hidden></div>\n</div>\n",
      MarkTables(picture), "<script type=\"application/json\" id=\"data\">", ScriptData(picture),
      "</script>\n<script>", kScript, "</script>\n</body>\n</html>\n");
}

}  // namespace stageload::ctl
