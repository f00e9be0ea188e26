#include "strata/data/image_folder.h"

#include <algorithm>

#include "core/letter_case.h"
#include "data/bytes.h"
#include "data/copy_rows.h"
#include "data/row_stream.h"
#include "strata/core/error.h"
#include "strata/core/file_system.h"

namespace strata::data {
namespace {

class PathRows final : public detail::Rows {
 public:
  PathRows(std::vector<std::string> paths, std::vector<int64_t> labels)
      : paths_(std::move(paths)), labels_(std::move(labels)) {}

  int64_t size() const override { return static_cast<int64_t>(paths_.size()); }

  Example row(int64_t index) const override {
    const auto i = static_cast<size_t>(index);
    return {bytes_tensor(paths_[i]), detail::scalar_of(labels_[i])};
  }

  Example gather(std::span<const int64_t> indices) const override {
    std::vector<Example> rows;
    rows.reserve(indices.size());
    for (const int64_t index : indices) rows.push_back(row(index));
    return detail::stack_examples(rows);
  }

  int64_t version() const override { return 0; }

  std::optional<ElementSpec> spec() const override {
    return ElementSpec{{{-1}, at::kByte}, {{}, at::kLong}};
  }

 private:
  std::vector<std::string> paths_;
  std::vector<int64_t> labels_;
};

class PathSource final : public detail::RowSource {
 public:
  PathSource(std::vector<std::string> paths, std::vector<int64_t> labels)
      : rows_(std::move(paths), std::move(labels)) {}
  const detail::Rows* rows() const override { return &rows_; }

 private:
  PathRows rows_;
};

bool is_folder(const FileSystem& files, const std::string& path) {
  const auto info = files.info(path);
  return info && info->is_folder;
}

void list_images(const FileSystem& files, const std::string& folder,
                 const std::vector<std::string>& extensions, std::vector<std::string>& out) {
  for (const std::string& name : files.list(folder)) {
    const std::string path = join_path(folder, name);
    const std::string lower = strata::detail::lower_case(name);
    const bool is_image = std::any_of(extensions.begin(), extensions.end(), [&](const auto& end) {
      return lower.ends_with(strata::detail::lower_case(end));
    });
    if (is_image) {
      out.push_back(path);
    } else if (is_folder(files, path)) {
      list_images(files, path, extensions, out);
    }
  }
}

}  // namespace

Dataset ImageFolder::files() const {
  STRATA_CHECK(paths.size() == labels.size(), kInvalidArgument, "[data] ImageFolder::files: got ",
               paths.size(), " paths and ", labels.size(), " labels; expected as many of each");
  return Dataset(std::make_shared<PathSource>(paths, labels));
}

Dataset ImageFolder::images(const DecodeOptions& options) const {
  return files().map([options](Example element) {
    return Example{load_image(to_string(element.x()), options), element.y()};
  });
}

ImageFolder image_folder(const std::string& folder, const ImageFolderOptions& options) {
  const FileSystem& files = file_system_of(folder);
  ImageFolder found;
  found.class_names = options.class_names;
  if (found.class_names.empty()) {
    for (const std::string& name : files.list(folder))
      if (is_folder(files, join_path(folder, name))) found.class_names.push_back(name);
  }
  STRATA_CHECK(!found.class_names.empty(), kNotFound, "[data] image_folder: got ", folder,
               " without sub-folders; expected one for each class");
  for (size_t label = 0; label < found.class_names.size(); ++label) {
    const std::string class_folder = join_path(folder, found.class_names[label]);
    STRATA_CHECK(is_folder(files, class_folder), kNotFound, "[data] image_folder: ", folder,
                 " has no folder ", found.class_names[label], "; expected one for each class");
    list_images(files, class_folder, options.extensions, found.paths);
    found.labels.resize(found.paths.size(), static_cast<int64_t>(label));
  }
  STRATA_CHECK(!found.paths.empty(), kNotFound, "[data] image_folder: got ", folder,
               " without images; expected files whose names end in one of the extensions");
  return found;
}

}  // namespace strata::data
