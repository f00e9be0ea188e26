// Writes two runs with every kind of summary, for check_events_with_tensorboard.py; the documents
// quote it.
//
//     strata_events_tool LOGDIR
#include <cmath>
#include <cstdio>
#include <string>
#include <vector>

#include "core/thread.h"
#include "strata/core/error.h"
#include "strata/summary/event_reader.h"
#include "strata/summary/summary_writer.h"
#include "strata/summary/trace_recorder.h"

namespace {

using namespace strata;

// A red square of 2 x 2 pixels, as PNG.
const std::string kPng(
    "\211\120\116\107\015\012\032\012\000\000\000\015\111\110\104\122\000\000\000\002\000\000\000"
    "\002"
    "\010\002\000\000\000\375\324\232\163\000\000\000\020\111\104\101\124\170\234\143\370\317\300"
    "\000"
    "\104\014\020\012\000\037\356\003\375\213\137\024\324\000\000\000\000\111\105\116\104\256\102"
    "\140"
    "\202",
    73);

void train(const std::string& logdir) {
  auto writer = summary::create_file_writer(logdir + "/train");
  writer.hparams({{"lr", 0.1}, {"optimizer", "adam"}, {"augment", true}});
  for (int64_t step = 0; step < 100; ++step) {
    writer.scalar("epoch_loss", 1.0 / static_cast<double>(step + 1), step);
  }
  writer.flush();  // other programs see everything up to here

  std::vector<float> weights;
  for (int i = 0; i < 10000; ++i) weights.push_back(std::sin(static_cast<float>(i)));
  for (int64_t step = 0; step < 3; ++step) {
    writer.histogram("dense/kernel/histogram", weights, step);
    writer.histogram("dense/bias/histogram", std::vector<float>(10, 0.0F), step);
  }
  writer.image("input", std::vector{kPng, kPng}, 2, 2, 0);
  writer.text("notes", "what *this* run tries", 0);

  summary::GraphDef graph;
  graph.add({.name = "input", .op = "Placeholder", .inputs = {}, .output_shape = {{-1, 784}}})
      .add({.name = "dense/kernel", .op = "Variable", .inputs = {}})
      .add({.name = "dense/MatMul", .op = "MatMul", .inputs = {"input", "dense/kernel"}});
  writer.graph(graph);
  writer.keras_model(
      R"({"class_name": "Sequential", "config": {"name": "sequential", "layers": [)"
      R"({"class_name": "InputLayer", "config": {"batch_shape": [null, 4], "name": "in"}},)"
      R"({"class_name": "Dense", "config": {"name": "dense", "units": 3}}]}})");
  writer.hparams_end(summary::SessionStatus::kSuccess);
  writer.close();
}

// A run that died at step 5, and went on from a checkpoint of step 3.
void resume(const std::string& logdir) {
  for (const auto& [from, to] : {std::pair{0, 5}, std::pair{3, 8}}) {
    auto writer = summary::create_file_writer(logdir + "/resumed");
    for (int64_t step = from; step < to; ++step)
      writer.scalar("epoch_loss", static_cast<double>(100 * from + step), step);
    writer.close();
  }
}

void profile(const std::string& logdir) {
  summary::TraceRecorder recorder;
  const auto step = [&] {
    const auto whole = recorder.span("step");
    const auto forward = recorder.span("forward");
  };
  { const Thread first("replica/0", step), second("replica/1", step); }
  const std::string folder = summary::write_profile(logdir + "/train", recorder.take(), "step_5");
  std::printf("%s\n", folder.c_str());
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) {
    std::fprintf(stderr, "usage: strata_events_tool LOGDIR\n");
    return 2;
  }
  try {
    train(argv[1]);
    resume(argv[1]);
    profile(argv[1]);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}
