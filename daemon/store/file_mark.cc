#include "daemon/store/file_mark.h"

#include <sqlite3.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>

#include "absl/strings/str_cat.h"
#include "base/database_file.h"

namespace stageload::store {
namespace {

constexpr std::size_t kLogHeaderBytes = 32;  // https://www.sqlite.org/fileformat.html, 4.1

struct Part {
  std::int64_t size = 0;
  std::string header;
};

std::optional<Part> Read(SQLite::Database& database, int pointer, std::size_t header_bytes) {
  Part part;
  sqlite3_file* file = nullptr;
  if (sqlite3_file_control(database.getHandle(), "main", pointer, &file) != SQLITE_OK ||
      file == nullptr || file->pMethods == nullptr) {
    return part;
  }
  sqlite3_int64 size = 0;
  if (file->pMethods->xFileSize(file, &size) != SQLITE_OK) return std::nullopt;
  part.size = size;
  part.header.resize(std::min(header_bytes, static_cast<std::size_t>(size)));
  const int read =
      file->pMethods->xRead(file, part.header.data(), static_cast<int>(part.header.size()), 0);
  if (read != SQLITE_OK && read != SQLITE_IOERR_SHORT_READ) return std::nullopt;
  return part;
}

// By what its own first page says.
bool Whole(const FileMark& mark) {
  const std::optional<std::int64_t> stated = StatedLength(mark.header);
  return stated && mark.size >= *stated;
}

std::string Cut(std::int64_t from, std::int64_t to) {
  return absl::StrCat("cut from ", from, " to ", to, " bytes");
}

}  // namespace

std::optional<FileMark> ReadMark(SQLite::Database& database, const std::string& path) {
  const std::optional<Part> file = Read(database, SQLITE_FCNTL_FILE_POINTER, kDatabaseHeaderBytes);
  const std::optional<Part> log = Read(database, SQLITE_FCNTL_JOURNAL_POINTER, kLogHeaderBytes);
  if (!file || !log) return std::nullopt;
  FileMark mark{file->size, file->header, log->size, log->header};
  struct stat found {};
  if (::stat((path + "-wal").c_str(), &found) == 0) {
    mark.log_file = found.st_ino;
  } else if (errno != ENOENT) {
    return std::nullopt;
  }
  return mark;
}

std::optional<std::string> ChangedBy(const FileMark& before, const FileMark& now, bool alone) {
  if (!alone) {
    if (Whole(now)) return std::nullopt;
    if (now.size < before.size) return absl::StrCat("was ", Cut(before.size, now.size));
    return "was written over";
  }
  if (now.size < before.size) return absl::StrCat("was ", Cut(before.size, now.size));
  if (now.header != before.header) return "was written over";
  if (now.log_file != before.log_file) return "has lost its write-ahead log";
  if (now.log_size < before.log_size) {
    return absl::StrCat("had its write-ahead log ", Cut(before.log_size, now.log_size));
  }
  if (now.log_header != before.log_header) return "had its write-ahead log written over";
  return std::nullopt;
}

std::optional<FileName> ReadName(const std::string& path) {
  struct stat found {};
  if (::lstat(path.c_str(), &found) != 0) return std::nullopt;
  return FileName{found.st_ino, S_ISLNK(found.st_mode)};
}

}  // namespace stageload::store
