#include "core/atomic_file.h"

#include "core/scratch.h"
#include "strata/core/error.h"
#include "strata/core/log.h"

namespace strata::detail {
namespace {

void remove_quietly(const FileSystem& files, const std::string& path) {
  try {
    if (files.info(path)) files.remove(path);
  } catch (const Error&) {  // the first error is the one to tell of
  }
}

void remove_abandoned(const FileSystem& files, const std::string& folder, const std::string& name) {
  try {
    for (const std::string& entry : files.list(folder)) {
      const auto scratch = parse_scratch_name(entry);
      if (!scratch || scratch->name != name) continue;
      const std::string path = join_path(folder, entry);
      const auto info = files.info(path);
      if (!info || info->is_folder) continue;
      if (const auto lock = lock_abandoned(files, path, *scratch)) files.remove(path);
    }
  } catch (const Error& error) {  // the folder may be one that can be written and not listed
    STRATA_VLOG(1) << "[core] write: cannot remove what dead processes left: " << error.what();
  }
}

/// Where files are atomic by themselves.
void write_at_once(const FileSystem& files, const std::string& path,
                   const std::function<void(WritableFile&)>& write) {
  const std::unique_ptr<WritableFile> file = files.create(path);
  write(*file);
  file->close();
}

void fill(const FileSystem& files, const std::string& path, const std::string& temporary,
          WritableFile& file, const std::function<void(WritableFile&)>& write) {
  try {
    write(file);
    file.sync();
    file.close();
    files.rename(temporary, path);
  } catch (...) {
    remove_quietly(files, temporary);
    throw;
  }
  files.sync_folder(split_path(path).first);
}

}  // namespace

void name_instead_of(const std::string& temporary, const std::string& path,
                     const std::function<void()>& work) {
  try {
    work();
  } catch (const Error& error) {
    const std::string folder = split_path(path).first;
    const FileSystem& files = file_system_of(path);
    STRATA_CHECK(error.code() != ErrorCode::kNotFound || files.info(folder), kNotFound,
                 "[core] write: ", path, ": there is no folder ", folder,
                 "; make it, or choose another place");
    std::string what = error.what();
    bool changed = false;
    for (size_t at = 0; (at = what.find(temporary, at)) != what.npos; at += path.size()) {
      what.replace(at, temporary.size(), path);
      changed = true;
    }
    if (!changed) throw;
    throw Error(error.code(), what);
  }
}

void write_atomically(const std::string& path, const std::function<void(WritableFile&)>& write) {
  const FileSystem& files = file_system_of(path);
  if (!files.renames_folders()) return write_at_once(files, path, write);
  const auto [folder, name] = split_path(path);
  remove_abandoned(files, folder, name);
  std::string temporary;
  const auto make_and_fill = [&, &folder = folder, &name = name] {
    std::unique_ptr<WritableFile> file;
    const Scratch scratch = make_scratch(files, folder, name, [&](const std::string& made) {
      temporary = made;
      file = files.create(made);
    });
    fill(files, path, scratch.path, *file, write);
  };
  try {
    make_and_fill();
  } catch (const Error&) {
    name_instead_of(temporary, path, [] { throw; });
  }
}

void write_atomically(const std::string& path, const std::string& temporary,
                      const std::function<void(WritableFile&)>& write) {
  const FileSystem& files = file_system_of(path);
  if (!files.renames_folders()) return write_at_once(files, path, write);
  name_instead_of(temporary, path,
                  [&] { fill(files, path, temporary, *files.create(temporary), write); });
}

}  // namespace strata::detail
