// strata-inspect, which `strata inspect PATH...` runs: what a file is, and its first elements. The
// kinds are in inspect_*.cc.
#include "tools/inspect/inspect.h"

#include <iostream>
#include <vector>

#include "core/join.h"
#include "data/files/byte_reader.h"
#include "strata/core/error.h"
#include "strata/core/file_system.h"
#include "tools/command_line.h"
#include "tools/exit_status.h"

namespace strata::tools {
namespace {

// The first that recognises a file prints it.
constexpr const InspectKind* kKinds[] = {
    &kInspectImage,       &kInspectEvents, &kInspectTfRecord,   &kInspectIdx,
    &kInspectSafetensors, &kInspectKeras,  &kInspectKerasH5,    &kInspectOnnx,
    &kInspectGraph,       &kInspectCsv,    &kInspectCheckpoint, &kInspectImageFolder,
    &kInspectText};

CommandHelp inspect_help() {
  return {.usage = "strata inspect PATH... [options]",
          .description =
              R"(Prints what a file is, its size, how many elements it holds, and the first of them:
TFRecord files (tf.train.Examples decoded), IDX files, CSV, text, JPEG and PNG images, folders
with a sub-folder of images for each class; gzipped or not. Checkpoints and safetensors files:
every tensor's name, dtype and shape, and all values. Keras models (.keras, .h5): layers, shapes,
parameters, how they were compiled; Keras weights (.weights.h5): shapes. ONNX models (.onnx) and
saved graphs: inputs, outputs, and how many nodes of each operator. TensorBoard's event files, and
folders of such: tags, kinds, steps, first and last values. Checksums are verified.
)"};
}

InspectPath look_at(const std::string& path) {
  const auto info = file_system_of(path).info(path);
  STRATA_CHECK(info.has_value(), kNotFound, "[strata inspect] got ", path,
               "; expected a file or a folder; there is nothing");
  InspectPath seen{.path = path, .is_folder = info->is_folder, .size = info->size};
  while (seen.path.size() > 1 && seen.path.back() == '/') seen.path.pop_back();
  if (seen.is_folder) return seen;
  const auto raw = data::detail::open_byte_reader(path, data::Compression::kNone);
  seen.start.resize(512);
  seen.start.resize(raw->read(seen.start.data(), seen.start.size()));
  seen.gzipped = seen.start.starts_with("\x1F\x8B");
  if (seen.gzipped) {
    seen.start.resize(512);
    seen.start.resize(
        data::detail::open_byte_reader(path)->read(seen.start.data(), seen.start.size()));
  }
  return seen;
}

// Whether lead bytes are followed by as many others as they say.
bool is_utf8(std::string_view bytes) {
  for (size_t i = 0; i < bytes.size();) {
    const auto lead = static_cast<unsigned char>(bytes[i++]);
    if (lead < 0x80) continue;
    if (lead < 0xC2 || lead > 0xF4) return false;
    for (int more = lead < 0xE0 ? 1 : lead < 0xF0 ? 2 : 3; more > 0; --more, ++i)
      if (i >= bytes.size() || (static_cast<unsigned char>(bytes[i]) & 0xC0) != 0x80) return false;
  }
  return true;
}

void inspect(const std::string& path, const InspectOptions& options) {
  const InspectPath seen = look_at(path);
  for (const InspectKind* kind : kKinds) {
    if (!kind->recognises(seen)) continue;
    std::cout << seen.path << ": " << kind->name << (seen.gzipped ? ", gzipped" : "");
    if (!seen.is_folder) std::cout << ", " << counted(static_cast<int64_t>(seen.size), "byte");
    std::cout << '\n';
    kind->print(seen, options);
    return;
  }
  throw Error(ErrorCode::kInvalidArgument,
              str_cat("[strata inspect] got ", path, ", which begins with ", quoted(seen.start, 16),
                      "; expected one of: ", join(kKinds, &InspectKind::name)));
}

int run(int argc, char** argv) {
  InspectOptions options;
  CommandLine line("strata inspect", inspect_help());
  line.number("--limit", "N", "elements to show (default 5)", options.limit, 0);
  if (!line.read({argv + 1, argv + argc})) {
    std::cout << line.help();
    return 0;
  }
  if (line.operands().empty()) {
    std::cerr << line.help();
    return kUsageError;
  }
  for (const std::string& path : line.operands()) inspect(path, options);
  return 0;
}

}  // namespace

std::string quoted(std::string_view bytes, size_t limit) {
  constexpr char kDigits[] = "0123456789abcdef";
  const bool utf8 = is_utf8(bytes);
  std::string text = "\"";
  for (const char c : bytes) {
    if (text.size() > limit) return text + "\"...";
    const auto code = static_cast<unsigned char>(c);
    if (c == '"' || c == '\\') {
      text += {'\\', c};
    } else if (c == '\n') {
      text += "\\n";
    } else if (code < 0x20 || code == 0x7F || (code > 0x7F && !utf8)) {
      text += {'\\', 'x', kDigits[code >> 4], kDigits[code & 15]};
    } else {
      text += c;
    }
  }
  return text + '"';
}

std::string counted(int64_t count, const char* what) {
  return str_cat(count, ' ', what, count == 1 ? "" : "s");
}

}  // namespace strata::tools

int main(int argc, char** argv) {
  return strata::tools::exit_status_of("strata", [&] { return strata::tools::run(argc, argv); });
}
