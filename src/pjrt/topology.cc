#include "pjrt/topology.h"

#include "pjrt/arguments.h"
#include "pjrt/compile_options.h"

namespace strata::pjrt {

Topology::Topology(std::shared_ptr<const Plugin> plugin, const std::string& name)
    : plugin_(std::move(plugin)) {
  auto create = STRATA_PJRT_ARGUMENTS(TopologyDescription_Create);
  create.topology_name = name.data();
  create.topology_name_size = name.size();
  plugin_->check(plugin_->api().PJRT_TopologyDescription_Create(&create), "describe a topology");
  topology_ = std::shared_ptr<PJRT_TopologyDescription>(
      create.topology, [plugin = plugin_](PJRT_TopologyDescription* topology) {
        auto destroy = STRATA_PJRT_ARGUMENTS(TopologyDescription_Destroy);
        destroy.topology = topology;
        plugin->api().PJRT_TopologyDescription_Destroy(&destroy);
      });
}

std::string Topology::compile(const std::string& program, int64_t num_replicas) const {
  const std::string options = serialized_options(num_replicas, {});
  std::string code = program;
  const PJRT_Program text = program_of(code);
  auto compile = STRATA_PJRT_ARGUMENTS(Compile);
  compile.topology = topology_.get();
  compile.program = &text;
  compile.compile_options = options.data();
  compile.compile_options_size = options.size();
  plugin_->check(plugin_->api().PJRT_Compile(&compile), "compile");
  const std::shared_ptr<PJRT_Executable> executable(
      compile.executable, [this](PJRT_Executable* each) {
        auto destroy = STRATA_PJRT_ARGUMENTS(Executable_Destroy);
        destroy.executable = each;
        plugin_->api().PJRT_Executable_Destroy(&destroy);
      });
  auto serialize = STRATA_PJRT_ARGUMENTS(Executable_Serialize);
  serialize.executable = executable.get();
  plugin_->check(plugin_->api().PJRT_Executable_Serialize(&serialize), "serialize a program");
  std::string bytes(serialize.serialized_bytes, serialize.serialized_bytes_size);
  serialize.serialized_executable_deleter(serialize.serialized_executable);
  return bytes;
}

}  // namespace strata::pjrt
