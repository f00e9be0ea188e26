#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/proto_message.h"

/// The messages that a compiler's options are in, as many of their fields as strata sets.
/// Source: xla/pjrt/proto/compile_options.proto, xla/xla_data.proto of OpenXLA.
namespace strata::pjrt {

using detail::MessageOf;

/// xla.DeviceAssignmentProto.ComputationDevice: the devices of the replicas of one partition.
struct ComputationDevice {
  std::vector<int64_t> replica_devices;
};

/// xla.DeviceAssignmentProto
struct DeviceAssignment {
  int64_t num_replicas = 1;
  int64_t num_partitions = 1;
  std::vector<ComputationDevice> partitions;
};

/// xla.ExecutableBuildOptionsProto
struct BuildOptions {
  int64_t device_ordinal = -1;  // not one: the assignment's
  int64_t num_replicas = 1;
  int64_t num_partitions = 1;
  DeviceAssignment assignment;
};

/// xla.CompileOptionsProto
struct CompileOptionsMessage {
  BuildOptions build;
};

void visit_fields(auto& field, MessageOf<ComputationDevice> auto& device) {
  field(1, "replica_device_ids", device.replica_devices);
}

void visit_fields(auto& field, MessageOf<DeviceAssignment> auto& assignment) {
  field(1, "replica_count", assignment.num_replicas);
  field(2, "computation_count", assignment.num_partitions);
  field(3, "computation_devices", assignment.partitions);
}

void visit_fields(auto& field, MessageOf<BuildOptions> auto& options) {
  field(1, "device_ordinal", options.device_ordinal);
  field(4, "num_replicas", options.num_replicas);
  field(5, "num_partitions", options.num_partitions);
  field(9, "device_assignment", options.assignment);
}

void visit_fields(auto& field, MessageOf<CompileOptionsMessage> auto& options) {
  field(3, "executable_build_options", options.build);
}

/// The options for programs that run on `devices`, one a replica; without devices, on the first ones.
std::string serialized_options(int64_t num_replicas, const std::vector<int64_t>& devices);

}  // namespace strata::pjrt
