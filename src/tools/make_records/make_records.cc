// strata-make-records, which `strata make-records FOLDER PREFIX` runs.
#include <iostream>
#include <string>

#include "strata/core/error.h"
#include "strata/data/imagenet.h"
#include "tools/command_line.h"
#include "tools/exit_status.h"

namespace strata::tools {
namespace {

CommandHelp make_records_help() {
  return {
      .usage = "strata make-records FOLDER PREFIX [options]",
      .description =
          R"(Writes the images of a folder, which has a sub-folder for each class, as TFRecord files with the
features of ImageNet's (image/encoded, image/class/label from 1 on, ...): PREFIX-00000-of-00016 and
so on. Classes are mixed. Damaged images are errors, which name them.
)",
      .examples =
          "  strata make-records photos/train records/train --shards 64\n"
          "  strata make-records photos/train s3://bucket/train\n"};
}

int run_make_records(int argc, char** argv) {
  data::ImageRecordFiles files;
  int64_t seed = 0;
  CommandLine line("strata make-records", make_records_help());
  line.number("--shards", "N", "files (default 16)", files.shards, 1);
  line.number("--seed", "N", "of the order of the images (default 0)", seed, 0);
  line.yes_or_no("--check", "decode each image (default yes)", files.check);
  if (!line.read({argv + 1, argv + argc})) {
    std::cout << line.help();
    return 0;
  }
  if (line.operands().size() != 2) {
    std::cerr << line.help();
    return kUsageError;
  }
  const data::ImageFolder folder = data::image_folder(line.operands()[0]);
  files.prefix = line.operands()[1];
  files.seed = static_cast<uint64_t>(seed);
  files.progress = [](int64_t done, int64_t all) {
    if (done % 1000 == 0) std::cerr << done << " of " << all << " images" << std::endl;
  };
  const auto paths = data::write_image_records(folder, files);
  std::cout << "wrote " << folder.paths.size() << " images of " << folder.class_names.size()
            << " classes into " << paths.size() << " files, " << paths.front() << " and so on\n";
  return 0;
}

}  // namespace
}  // namespace strata::tools

int main(int argc, char** argv) {
  return strata::tools::exit_status_of("strata",
                                       [&] { return strata::tools::run_make_records(argc, argv); });
}
