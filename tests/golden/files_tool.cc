// The C++ side of check_jpegs.py and check_ours_with_tf.py.
//   files_tool decode        for each path on standard input: "height width channels\n" and the
//                            pixels, or "error TEXT\n"
//   files_tool write FOLDER  files for TensorFlow to read
#include <ATen/ops/empty.h>

#include <iostream>
#include <string>

#include "strata/core/error.h"
#include "strata/core/file_system.h"
#include "strata/data/image_codec.h"
#include "strata/data/tf_example.h"
#include "strata/data/tf_record.h"

namespace {

using namespace strata;
using namespace strata::data;

int decode() {
  for (std::string path; std::getline(std::cin, path);) {
    try {
      const at::Tensor image = load_image(path);
      std::cout << image.size(0) << ' ' << image.size(1) << ' ' << image.size(2) << '\n';
      std::cout.write(static_cast<const char*>(image.const_data_ptr()), image.numel());
    } catch (const Error& error) {
      std::cout << "error " << error.what() << '\n';
    }
  }
  return 0;
}

std::string pattern(size_t size) {
  std::string bytes(size, '\0');
  for (size_t i = 0; i < size; ++i) bytes[i] = static_cast<char>((i * 7 + size) % 256);
  return bytes;
}

at::Tensor picture(int64_t height, int64_t width, int64_t channels) {
  at::Tensor image = at::empty({height, width, channels}, at::kByte);
  auto* to = static_cast<uint8_t*>(image.mutable_data_ptr());
  for (int64_t y = 0; y < height; ++y)
    for (int64_t x = 0; x < width; ++x)
      for (int64_t c = 0; c < channels; ++c)
        *to++ = static_cast<uint8_t>((y * 3 + x * 2 + c * 40) % 256);
  return image;
}

void write_file(const std::string& path, std::string_view bytes) {
  const auto file = file_system_of(path).create(path);
  file->append(std::as_bytes(std::span(bytes)));
  file->close();
}

int write(const std::string& folder) {
  const std::pair<const char*, Compression> kinds[] = {
      {"none", Compression::kNone}, {"gzip", Compression::kGzip}, {"zlib", Compression::kZlib}};
  for (const auto& [name, compression] : kinds) {
    TfRecordWriter writer(join_path(folder, str_cat("records.", name)),
                          {.compression = compression});
    for (const size_t size : {0, 1, 255, 1000, 300000}) writer.write(pattern(size));
    writer.close();
  }
  TfRecordWriter examples(join_path(folder, "examples.tfrecord"));
  examples.write(serialize_example({{"ints", TfFeature::int64s({1, -2, int64_t{1} << 62})},
                                    {"floats", TfFeature::floats({0.5F, -1e30F})},
                                    {"strings", TfFeature::bytes({"x", "", pattern(300)})}}));
  examples.write(serialize_example({{"ints", TfFeature::int64s({})},
                                    {"floats", TfFeature::floats({})},
                                    {"strings", TfFeature::bytes({})},
                                    {"none", TfFeature{}}}));
  examples.write(serialize_example({}));
  examples.close();
  for (const int64_t channels : {1, 2, 3, 4}) {
    const at::Tensor image = picture(21, 34, channels);
    write_file(join_path(folder, str_cat(channels, ".png")), encode_png(image));
    if (channels == 2 || channels == 4) continue;
    write_file(join_path(folder, str_cat(channels, ".jpg")), encode_jpeg(image));
    write_file(join_path(folder, str_cat(channels, "p.jpg")),
               encode_jpeg(image, {.chroma_downsampling = false, .progressive = true}));
  }
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  const std::string command = argc > 1 ? argv[1] : "";
  if (command == "decode") return decode();
  if (command == "write" && argc == 3) return write(argv[2]);
  std::cerr << "usage: files_tool decode | write FOLDER\n";
  return 2;
}
