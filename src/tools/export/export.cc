// strata-export, which `strata export MODEL FILE` runs.
#include <ATen/ops/empty.h>

#include <iostream>
#include <string>
#include <vector>

#include "strata/core/error.h"
#include "strata/keras/export.h"
#include "strata/keras/saving.h"
#include "tools/command_line.h"
#include "tools/exit_status.h"

namespace strata::tools {
namespace {

CommandHelp export_help() {
  return {
      .usage = "strata export MODEL.keras FILE [options]",
      .description =
          R"(Writes the forward pass of a Keras model (.keras, or a whole-model .h5) with its weights: as an ONNX
file, for onnxruntime and others, or as a graph that graph::load_graph runs without the program that
made the model. The file takes any number of examples.
)",
      .examples =
          "  strata export resnet.keras resnet.onnx\n"
          "  strata export words.keras words.onnx --sizes 128   # steps of a sequence\n"
          "  strata export resnet.keras resnet.graph --format strata\n"};
}

/// Examples of the inputs whose unknown sizes, in their order, are `sizes`.
keras::Tensors examples_of(const keras::Model& model, const std::vector<int64_t>& sizes) {
  keras::Tensors inputs;
  size_t next = 0;
  for (const keras::SymbolicTensor& symbol : model.inputs()) {
    keras::Shape shape = symbol.shape();
    for (size_t d = 0; d < shape.size(); ++d) {
      if (shape[d] != keras::kNone) continue;
      if (d == 0) {
        shape[d] = 2;
        continue;
      }
      STRATA_CHECK(next < sizes.size(), kInvalidArgument, "[strata export] got ", sizes.size(),
                   " --sizes; the model's inputs have more unknown ones");
      shape[d] = sizes[next++];
    }
    inputs.push_back(at::empty(shape, at::dtype(symbol.dtype())));
  }
  STRATA_CHECK(next == sizes.size(), kInvalidArgument, "[strata export] got ", sizes.size(),
               " --sizes; the model's inputs have ", next, " unknown ones");
  return inputs;
}

int64_t size_of(const std::string& text) {
  size_t end = 0;
  int64_t size = 0;
  try {
    size = std::stoll(text, &end);
  } catch (const std::exception&) {
    end = 0;
  }
  STRATA_CHECK(end == text.size() && size > 0, kInvalidArgument, "[strata export] --sizes: got '",
               text, "'; expected whole numbers above 0");
  return size;
}

int run_export(int argc, char** argv) {
  std::vector<std::string> words;
  keras::ExportOptions options;
  CommandLine line("strata export", export_help());
  line.text("--format", "F", "onnx (the default) or strata", options.format);
  line.list("--sizes", "N,...", "the unknown sizes of the inputs, but the batch, in order", words);
  if (!line.read({argv + 1, argv + argc})) {
    std::cout << line.help();
    return 0;
  }
  if (line.operands().size() != 2) {
    std::cerr << line.help();
    return kUsageError;
  }
  const keras::Model model = keras::load_model(line.operands()[0], {.compile = false});
  if (!words.empty()) {
    std::vector<int64_t> sizes;
    for (const std::string& word : words) sizes.push_back(size_of(word));
    options.inputs = examples_of(model, sizes);
    options.any_batch = true;
  }
  keras::export_model(model, line.operands()[1], options);
  std::cout << "wrote " << line.operands()[1] << '\n';
  return 0;
}

}  // namespace
}  // namespace strata::tools

int main(int argc, char** argv) {
  return strata::tools::exit_status_of("strata",
                                       [&] { return strata::tools::run_export(argc, argv); });
}
