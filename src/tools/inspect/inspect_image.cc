#include <ATen/core/Tensor.h>

#include <algorithm>
#include <iostream>

#include "strata/core/error.h"
#include "strata/core/file_system.h"
#include "strata/data/image_codec.h"
#include "strata/data/image_folder.h"
#include "tools/inspect/inspect.h"

namespace strata::tools {
namespace {

void print_image(const InspectPath& path, const InspectOptions&) {
  const std::string bytes = read_file(path.path);
  const data::ImageInfo info = data::image_info(bytes, path.path);
  std::cout << info.format << ", " << info.height << " x " << info.width << " x " << info.channels
            << " (height, width, channels)\n";
  const at::Tensor image = data::decode_image(bytes, {.name = path.path}).to(at::kDouble);
  for (int64_t c = 0; c < image.size(2); ++c) {
    const at::Tensor channel = image.select(2, c);
    std::cout << "channel " << c << ": " << channel.min().item<double>() << " to "
              << channel.max().item<double>() << ", mean " << channel.mean().item<double>() << '\n';
  }
}

bool is_image(const InspectPath& path) {
  return path.start.starts_with("\xFF\xD8\xFF") || path.start.starts_with("\x89PNG\r\n\x1A\n");
}

void print_folder(const InspectPath& path, const InspectOptions& options) {
  const data::ImageFolder folder = data::image_folder(path.path);
  for (size_t label = 0; label < folder.class_names.size(); ++label)
    std::cout << "class " << label << ": " << folder.class_names[label] << ", "
              << counted(std::count(folder.labels.begin(), folder.labels.end(),
                                    static_cast<int64_t>(label)),
                         "image")
              << '\n';
  for (size_t i = 0; i < folder.paths.size() && i < static_cast<size_t>(options.limit); ++i) {
    const std::string& image = folder.paths[i];
    const data::ImageInfo info = data::image_info(read_file(image), image);
    std::cout << "element " << i << ": " << image << "  " << info.format << ", " << info.height
              << " x " << info.width << " x " << info.channels << ", label " << folder.labels[i]
              << '\n';
  }
  std::cout << counted(static_cast<int64_t>(folder.paths.size()), "image") << '\n';
}

// A folder with a folder that holds an image.
bool is_image_folder(const InspectPath& path) {
  if (!path.is_folder) return false;
  try {
    return !data::image_folder(path.path).paths.empty();
  } catch (const Error&) {
    return false;
  }
}

}  // namespace

const InspectKind kInspectImage = {"image", is_image, print_image};
const InspectKind kInspectImageFolder = {"folder of images by class", is_image_folder,
                                         print_folder};

}  // namespace strata::tools
