// What is written into event files is what TensorFlow's .proto files declare.
#include "summary/event_proto.h"

#include <gtest/gtest.h>

#include "strata/summary/trace.h"
#include "summary/xplane.h"
#include "support/proto_schema.h"

namespace strata::summary::detail {
namespace {

using test::find_fault;
using test::ProtoSchema;

TEST(EventProtoTest, EventsAreWhatTheirContractSays) {
  const ProtoSchema schema = ProtoSchema::read("tensorflow/event.proto");
  const std::string texts[] = {"a", "b"};
  const double numbers[] = {1, 2, 3, 4, 5, 6};
  for (const std::string& tensor :
       {float_tensor(1.5F), no_tensor(), double_tensor(numbers, 2, 3), string_tensor("text"),
        string_tensor(std::span<const std::string>(texts))}) {
    const std::string event = summary_event(1.5, 3, value("tag", tensor, "scalars", "content"));
    EXPECT_EQ(find_fault(schema, "Event", event), "");
  }
  EXPECT_EQ(find_fault(schema, "Event", version_event(1)), "");
  GraphDef graph;
  graph.add({.name = "x",
             .op = "Placeholder",
             .inputs = {},
             .output_shape = std::vector<int64_t>{-1, 3}});
  graph.add({.name = "y", .op = "MatMul", .inputs = {"x"}, .device = "/cpu:0"});
  EXPECT_EQ(find_fault(schema, "Event", graph_event(1, graph_def(graph))), "");
  EXPECT_EQ(find_fault(schema, "GraphDef", graph_def(graph)), "");
}

TEST(EventProtoTest, HyperparametersAreWhatTheirContractSays) {
  const ProtoSchema schema = ProtoSchema::read("tensorflow/hparams.proto");
  const std::map<std::string, HparamValue> hparams = {
      {"rate", 0.5}, {"name", "adam"}, {"flag", true}};
  EXPECT_EQ(find_fault(schema, "HParamsPluginData", session_start(hparams, "group", 1)), "");
  EXPECT_EQ(find_fault(schema, "HParamsPluginData", session_end(SessionStatus::kSuccess, 2)), "");
}

TEST(EventProtoTest, TracesAreWhatTheirContractSays) {
  const ProtoSchema schema = ProtoSchema::read("tensorflow/xplane.proto");
  const Trace trace = {
      .start_ns = 1,
      .threads = {{.name = "main", .spans = {{.name = "step", .begin_ns = 1, .duration_ns = 2}}}}};
  EXPECT_EQ(find_fault(schema, "XSpace", xspace(trace, "host")), "");
}

TEST(EventProtoTest, AFaultIsFound) {
  const ProtoSchema schema = ProtoSchema::read("tensorflow/event.proto");
  EXPECT_EQ(find_fault(schema, "SourceMetadata", "\x0a\x01x"), "");
  EXPECT_EQ(find_fault(schema, "SourceMetadata", "\x12\x01x"), "SourceMetadata has no field 2");
  EXPECT_EQ(find_fault(schema, "SourceMetadata", "\x08\x01"),
            "SourceMetadata.writer is of wire type 0");
  EXPECT_EQ(find_fault(schema, "Event", "\x52\x02\x08\x01"),
            "SourceMetadata.writer is of wire type 0");
}

}  // namespace
}  // namespace strata::summary::detail
