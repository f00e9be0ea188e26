#include "estimator/export_folder.h"

#include <chrono>
#include <cstdint>
#include <span>

#include "strata/core/error.h"
#include "strata/core/file_system.h"

namespace strata::estimator::detail {
namespace {

constexpr int kNameTries = 10;

}  // namespace

std::string write_export(const std::string& export_path, const char* call,
                         const std::function<void(const std::string& folder)>& write) {
  const FileSystem& files = file_system_of(export_path);
  int64_t seconds = std::chrono::duration_cast<std::chrono::seconds>(
                        std::chrono::system_clock::now().time_since_epoch())
                        .count();
  const int64_t first = seconds;
  while (files.info(join_path(export_path, std::to_string(seconds)))) {
    STRATA_CHECK(++seconds < first + kNameTries, kAlreadyExists, "[estimator] ", call, ": ",
                 export_path, " has folders ", first, " to ", seconds - 1, "; try again later");
  }
  const std::string folder = join_path(export_path, std::to_string(seconds));
  const std::string temporary = join_path(export_path, str_cat("temp-", seconds));
  files.make_folders(temporary);
  write(temporary);
  files.sync_folder(temporary);
  files.rename(temporary, folder);
  files.sync_folder(export_path);
  return folder;
}

void write_text_file(const std::string& path, const std::string& text) {
  const auto file = file_system_of(path).create(path);
  file->append(std::as_bytes(std::span(text)));
  file->sync();
  file->close();
}

}  // namespace strata::estimator::detail
