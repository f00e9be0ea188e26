#include "core/object_store/object_file_system.h"

#include <algorithm>
#include <cstdlib>
#include <utility>

#include "core/object_store/object_file.h"
#include "core/object_store/store.h"
#include "strata/core/error.h"

namespace strata::object_store {
namespace {

/// Objects have no folders: one is there if the key of some object begins with its name. An object
/// of its own, "name/", stands for one that was made, as Amazon's console makes it.
class ObjectFileSystem final : public FileSystem {
 public:
  explicit ObjectFileSystem(Settings settings) : store_(std::move(settings)) {}

  std::unique_ptr<ReadableFile> open(const std::string& path) const override {
    const ObjectPath object = object_at("open", path);
    auto info = store_.head(object);
    if (!info) {
      STRATA_CHECK(!is_folder(object), kFailedPrecondition, "[core] open: ", path, " is a folder");
      throw_missing("open", path);
    }
    return open_object(store_, object, *std::move(info));
  }

  std::unique_ptr<WritableFile> create(const std::string& path) const override {
    return create_object(store_, object_at("create", path));
  }

  std::optional<FileInfo> info(const std::string& path) const override {
    const ObjectPath object = ObjectPath::parse(path);
    if (!object.key.empty()) {
      if (const auto found = store_.head(object)) {
        return FileInfo{.size = found->size, .modified_ns = found->modified_ns};
      }
    }
    if (!is_folder(object) && !object.key.empty()) return std::nullopt;
    return FileInfo{.is_folder = true};
  }

  std::vector<std::string> list(const std::string& folder) const override {
    std::vector<std::string> names = store_.list(ObjectPath::parse(folder));
    for (std::string& name : names) {
      if (name.ends_with('/')) name.pop_back();
    }
    std::erase(names, "");
    std::ranges::sort(names);
    names.erase(std::unique(names.begin(), names.end()), names.end());
    return names;
  }

  void make_folders(const std::string& folder) const override {
    const ObjectPath path = ObjectPath::parse(folder);
    if (!is_folder(path) && !path.key.empty()) store_.put(marker_of(path), "");
  }

  void rename(const std::string& from, const std::string& to) const override {
    const ObjectPath source = object_at("rename", from), target = object_at("rename", to);
    if (!store_.head(source)) {
      STRATA_CHECK(!is_folder(source), kUnimplemented, "[core] rename: ", from,
                   " is a folder, whose objects cannot be renamed in one step");
      throw_missing("rename", from);
    }
    store_.copy(source, target);
    store_.remove(source);
  }

  void remove(const std::string& path) const override {
    const ObjectPath object = object_at("remove", path);
    if (store_.head(object)) return store_.remove(object);
    const std::vector<std::string> names = store_.list(object, 2);
    if (names.empty()) throw_missing("remove", path);
    STRATA_CHECK(names.size() == 1 && names[0].empty(), kFailedPrecondition,
                 "[core] remove: ", path, ": the folder is not empty");
    store_.remove(marker_of(object));
  }

  void sync_folder(const std::string&) const override {
  }  // an object that is there is on the medium

  bool renames_folders() const override { return false; }

 private:
  static ObjectPath object_at(const char* call, const std::string& path) {
    ObjectPath object = ObjectPath::parse(path);
    STRATA_CHECK(!object.key.empty(), kFailedPrecondition, "[core] ", call, ": ", path,
                 " is a bucket; expected a path in it");
    return object;
  }
  static ObjectPath marker_of(ObjectPath path) {
    path.key += '/';
    return path;
  }
  [[noreturn]] static void throw_missing(const char* call, const std::string& path) {
    throw Error(ErrorCode::kNotFound, str_cat("[core] ", call, ": ", path, ": no such object"));
  }
  bool is_folder(const ObjectPath& path) const { return !store_.list(path, 1).empty(); }

  const Store store_;
};

}  // namespace

const char* variable_of_process(const char* name) {
  return std::getenv(name);  // NOLINT(concurrency-mt-unsafe)
}

std::unique_ptr<const FileSystem> make_file_system(const std::string& scheme,
                                                   const Environment& environment) {
  return std::make_unique<ObjectFileSystem>(settings_of(scheme, environment));
}

}  // namespace strata::object_store
