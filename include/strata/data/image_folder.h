#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "strata/core/export.h"
#include "strata/data/dataset.h"
#include "strata/data/example.h"
#include "strata/data/image_codec.h"

namespace strata::data {

struct ImageFolderOptions {
  /// The endings of image names, in small or large letters; other files are ignored.
  std::vector<std::string> extensions = {".jpg", ".jpeg", ".png"};
  /// The classes, in the order of their labels; empty: all sub-folders, sorted by name.
  std::vector<std::string> class_names = {};
};

/// A folder with a sub-folder of images for each class, as it was when it was listed.
///
///     const ImageFolder cats_and_dogs = image_folder("pets");
///     Dataset train = cats_and_dogs.files().shuffle(25000).map([](Example e) {
///       return Example{resize(load_image(to_string(e.x())), 224, 224), e.y()};
///     }).batch(32);
struct STRATA_API ImageFolder {
  std::vector<std::string> class_names;
  std::vector<std::string> paths;  ///< sorted: class by class, then by name
  std::vector<int64_t> labels;     ///< of each path, an index into class_names

  /// Element: x the path's bytes, uint8 `[length]`, y its label, int64 scalar. In-memory rows:
  /// `shuffle`, `shard` and `restore` move row numbers.
  Dataset files() const;

  /// Element: x the decoded image, uint8 `[height, width, channels]`, y its label. To shuffle or
  /// to skip broken files, start from `files` instead.
  Dataset images(const DecodeOptions& options = {}) const;
};

/// Lists `folder` through its file system; sub-folders of the classes' folders count too.
/// @throws Error as FileSystem::list; kNotFound: no sub-folders, one of options.class_names does
/// not exist, or there are no images.   Source: keras.utils.image_dataset_from_directory.
STRATA_API ImageFolder image_folder(const std::string& folder,
                                    const ImageFolderOptions& options = {});

}  // namespace strata::data
