// TensorFlow's event file (tests/golden/make_tf_events.py): we read what it wrote, and write the
// same bytes.
#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>

#include "strata/core/file_system.h"
#include "strata/summary/event_reader.h"
#include "strata/summary/summary_writer.h"
#include "summary/histogram.h"
#include "support/source_path.h"
#include "support/temp_folder.h"

namespace strata::summary {
namespace {

using Json = nlohmann::json;

const std::string kFolder = test::source_path("tests/golden/events");
const std::string kFile = kFolder + "/events.out.tfevents.0000001000.tensorflow.1.0.v2";

const Json& expected() {
  static const Json json = Json::parse(std::ifstream(kFolder + "/expected.json"));
  return json;
}

// Bytes stand in the JSON as the characters U+0000 to U+00FF.
std::string bytes_of(const Json& json) {
  std::string out;
  const auto text = json.get<std::string>();
  for (size_t i = 0; i < text.size(); ++i) {
    const auto byte = static_cast<unsigned char>(text[i]);
    out +=
        byte < 0x80
            ? text[i]
            : static_cast<char>((byte & 3) << 6 | (static_cast<unsigned char>(text[++i]) & 0x3F));
  }
  return out;
}

double number_of(const Json& json) {
  return json.is_string() ? std::stod(json.get<std::string>()) : json.get<double>();
}

std::vector<std::string> strings_of(const Json& json) {
  std::vector<std::string> out;
  for (const Json& text : json) out.push_back(bytes_of(text));
  return out;
}

TEST(TfEventsGoldenTest, ReadsWhatTensorFlowWrote) {
  const std::vector<Event> events = read_events(kFile);
  const Json& wanted = expected()["events"];
  ASSERT_EQ(events.size(), wanted.size());
  ASSERT_GT(events.size(), 30U);
  for (size_t i = 0; i < events.size(); ++i) {
    SCOPED_TRACE(i);
    EXPECT_EQ(events[i].wall_time, wanted[i]["wall_time"]);
    EXPECT_EQ(events[i].step, wanted[i]["step"]);
    EXPECT_EQ(events[i].file_version, wanted[i]["file_version"]);
    EXPECT_EQ(events[i].graph_def.size(), wanted[i]["graph_bytes"]);
    ASSERT_EQ(events[i].values.size(), wanted[i]["values"].size());
    for (size_t j = 0; j < events[i].values.size(); ++j) {
      const SummaryValue& value = events[i].values[j];
      const Json& want = wanted[i]["values"][j];
      SCOPED_TRACE(value.tag);
      EXPECT_EQ(value.tag, want["tag"]);
      EXPECT_EQ(value.plugin, want["plugin"]);
      EXPECT_EQ(value.content, bytes_of(want["content"]));
      EXPECT_EQ(value.tensor.dtype, want["dtype"]);
      EXPECT_EQ(value.tensor.shape, want["shape"].get<std::vector<int64_t>>());
      EXPECT_EQ(value.tensor.strings, strings_of(want["strings"]));
      ASSERT_EQ(value.tensor.numbers.size(), want["numbers"].size());
      for (size_t k = 0; k < value.tensor.numbers.size(); ++k) {
        const double x = number_of(want["numbers"][k]);
        EXPECT_TRUE(value.tensor.numbers[k] == x ||
                    (std::isnan(x) && std::isnan(value.tensor.numbers[k])))
            << value.tensor.numbers[k] << " instead of " << x;
      }
    }
  }
}

// All records but the first (our name is in it), the graph and the tensors of other types.
TEST(TfEventsGoldenTest, WritesTheSameBytes) {
  const test::TempFolder folder;
  int64_t record =
      -1;  // as the script numbers them; the file's name takes one, the first record too
  double now = 0;
  auto writer = create_file_writer(folder.path(), {.wall_time = [&] { return now; }});
  const auto next = [&] { now = 1000.25 + static_cast<double>(++record + 1); };

  int64_t step = 0;
  for (const double x : {0.5, 0.1, std::nan(""), HUGE_VAL, -2e-40, 1e30}) {
    next();
    writer.scalar("loss", x, step++);
  }
  next();
  writer.scalar("far", 1, int64_t{1} << 40);
  step = 0;
  for (const Json& one : expected()["histograms"]) {
    next();
    const auto numbers = one["numbers"].get<std::vector<double>>();
    const std::string tag = "h/" + one["name"].get<std::string>();
    if (one["float32"]) {
      const std::vector<float> floats(numbers.begin(), numbers.end());
      writer.histogram(tag, floats, step++, one["buckets"]);
    } else {
      writer.histogram(tag, numbers, step++, one["buckets"]);
    }
  }
  next();
  writer.image("picture", strings_of(expected()["images"]), 4, 5, 5);
  next();
  writer.text("words", "a **bold** \u00e4", 6);
  next();
  writer.text("column", std::vector<std::string>{"one", "", "three"}, 7);
  next();
  const double hparams_time = now;
  now = 1234.5;  // also the session's start; replaced below
  writer.hparams(
      {{"lr", 0.1}, {"optimizer", "adam"}, {"augment", true}, {"layers", 3}, {"off", false}},
      "trial 1");
  ++record;
  now = 2345.5;
  writer.hparams_end(SessionStatus::kSuccess);
  next();
  writer.keras_model(R"({"class_name": "Sequential"})");
  writer.close();

  std::vector<std::string> reference, actual;
  for (const auto& [path, out] :
       {std::pair{kFile, &reference}, std::pair{writer.path(), &actual}}) {
    std::string bytes = read_file(path);
    while (!bytes.empty()) {
      uint64_t length = 0;
      for (int i = 7; i >= 0; --i) length = length << 8 | static_cast<unsigned char>(bytes[i]);
      out->push_back(bytes.substr(0, length + 16));
      bytes.erase(0, length + 16);
    }
  }
  ASSERT_EQ(actual.size(), static_cast<size_t>(record) + 2);
  ASSERT_LT(actual.size(), reference.size());
  for (size_t i = 1; i < actual.size(); ++i) {
    if (i == static_cast<size_t>(hparams_time - 1000.25) || i == static_cast<size_t>(record)) {
      // The time of the event is that of the session: behind it, up to the checksum, all is equal.
      constexpr size_t kTime = 12 + 1 + 8;
      EXPECT_EQ(actual[i].substr(kTime, actual[i].size() - kTime - 4),
                reference[i].substr(kTime, reference[i].size() - kTime - 4))
          << i;
    } else {
      EXPECT_EQ(actual[i], reference[i]) << i;
    }
  }
}

}  // namespace
}  // namespace strata::summary
