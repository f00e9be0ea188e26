#include "pjrt/client.h"

#include <algorithm>

#include "pjrt/arguments.h"
#include "pjrt/compile_options.h"

namespace strata::pjrt {
namespace {

PJRT_Buffer_Type buffer_type(ElementType type) {
  switch (type) {
    case ElementType::kBool:
      return PJRT_Buffer_Type_PRED;
    case ElementType::kInt8:
      return PJRT_Buffer_Type_S8;
    case ElementType::kInt16:
      return PJRT_Buffer_Type_S16;
    case ElementType::kInt32:
      return PJRT_Buffer_Type_S32;
    case ElementType::kInt64:
      return PJRT_Buffer_Type_S64;
    case ElementType::kUInt8:
      return PJRT_Buffer_Type_U8;
    case ElementType::kUInt32:
      return PJRT_Buffer_Type_U32;
    case ElementType::kUInt64:
      return PJRT_Buffer_Type_U64;
    case ElementType::kHalf:
      return PJRT_Buffer_Type_F16;
    case ElementType::kBFloat16:
      return PJRT_Buffer_Type_BF16;
    case ElementType::kFloat:
      return PJRT_Buffer_Type_F32;
    case ElementType::kDouble:
      return PJRT_Buffer_Type_F64;
  }
  return PJRT_Buffer_Type_INVALID;
}

PJRT_NamedValue named_value(const ClientOption& option) {
  auto value = sized<PJRT_NamedValue>(PJRT_NamedValue_STRUCT_SIZE);
  value.name = option.first.data();
  value.name_size = option.first.size();
  value.value_size = 1;
  if (const auto* text = std::get_if<std::string>(&option.second)) {
    value.type = PJRT_NamedValue_kString;
    value.string_value = text->c_str();
    value.value_size = text->size();
  } else if (const auto* integer = std::get_if<int64_t>(&option.second)) {
    value.type = PJRT_NamedValue_kInt64;
    value.int64_value = *integer;
  } else if (const auto* number = std::get_if<float>(&option.second)) {
    value.type = PJRT_NamedValue_kFloat;
    value.float_value = *number;
  } else {
    value.type = PJRT_NamedValue_kBool;
    value.bool_value = std::get<bool>(option.second);
  }
  return value;
}

}  // namespace

Client::Client(std::shared_ptr<const Plugin> plugin, const std::vector<ClientOption>& options)
    : plugin_(std::move(plugin)) {
  std::vector<PJRT_NamedValue> values;
  for (const ClientOption& option : options) values.push_back(named_value(option));
  auto create = STRATA_PJRT_ARGUMENTS(Client_Create);
  create.create_options = values.data();
  create.num_options = values.size();
  plugin_->check(plugin_->api().PJRT_Client_Create(&create), "create a client");
  client_ = std::shared_ptr<PJRT_Client>(create.client, [plugin = plugin_](PJRT_Client* client) {
    auto destroy = STRATA_PJRT_ARGUMENTS(Client_Destroy);
    destroy.client = client;
    plugin->api().PJRT_Client_Destroy(&destroy);
  });
  auto devices = STRATA_PJRT_ARGUMENTS(Client_AddressableDevices);
  devices.client = client_.get();
  plugin_->check(plugin_->api().PJRT_Client_AddressableDevices(&devices), "list devices");
  devices_.assign(devices.addressable_devices,
                  devices.addressable_devices + devices.num_addressable_devices);
}

std::string Client::platform() const {
  auto arguments = STRATA_PJRT_ARGUMENTS(Client_PlatformName);
  arguments.client = client_.get();
  plugin_->check(plugin_->api().PJRT_Client_PlatformName(&arguments), "name the platform");
  return {arguments.platform_name, arguments.platform_name_size};
}

Buffer Client::to_device(const void* data, const ArrayType& type, int64_t device) const {
  STRATA_CHECK(device >= 0 && device < num_devices(), kInvalidArgument,
               "[pjrt] to_device: got device ", device, "; expected one of the client's ",
               num_devices());
  auto arguments = STRATA_PJRT_ARGUMENTS(Client_BufferFromHostBuffer);
  arguments.client = client_.get();
  arguments.data = data;
  arguments.type = buffer_type(type.element);
  arguments.dims = type.sizes.data();
  arguments.num_dims = type.sizes.size();
  arguments.host_buffer_semantics = PJRT_HostBufferSemantics_kImmutableOnlyDuringCall;
  arguments.device = devices_[static_cast<size_t>(device)];
  plugin_->check(plugin_->api().PJRT_Client_BufferFromHostBuffer(&arguments), "copy to a device");
  Buffer buffer(plugin_, client_, arguments.buffer);
  wait_for(*plugin_, arguments.done_with_host_buffer, "copy to a device");
  return buffer;
}

Executable Client::compile(const std::string& program, const CompileOptions& options) const {
  STRATA_CHECK(options.num_replicas > 0 && options.num_replicas <= num_devices(), kInvalidArgument,
               "[pjrt] compile: got ", options.num_replicas, " replicas for ", num_devices(),
               " devices; expected at most one a device");
  STRATA_CHECK(options.devices.empty() ||
                   static_cast<int64_t>(options.devices.size()) == options.num_replicas,
               kInvalidArgument, "[pjrt] compile: got ", options.devices.size(), " devices for ",
               options.num_replicas, " replicas; give one a replica, or none");
  const std::string bytes = serialized_options(options.num_replicas, options.devices);
  std::string code = program;
  const PJRT_Program text = program_of(code);
  auto arguments = STRATA_PJRT_ARGUMENTS(Client_Compile);
  arguments.client = client_.get();
  arguments.program = &text;
  arguments.compile_options = bytes.data();
  arguments.compile_options_size = bytes.size();
  plugin_->check(plugin_->api().PJRT_Client_Compile(&arguments), "compile");
  return {plugin_, client_, arguments.executable, options.num_replicas};
}

// Each holds the client, too: the plugin must free it last.
Buffer::Buffer(std::shared_ptr<const Plugin> plugin, std::shared_ptr<PJRT_Client> client,
               PJRT_Buffer* buffer)
    : plugin_(std::move(plugin)),
      buffer_(buffer, [plugin = plugin_, client = std::move(client)](PJRT_Buffer* each) {
        auto arguments = STRATA_PJRT_ARGUMENTS(Buffer_Destroy);
        arguments.buffer = each;
        plugin->api().PJRT_Buffer_Destroy(&arguments);
      }) {}

void Buffer::wait(std::chrono::milliseconds timeout) const {
  auto arguments = STRATA_PJRT_ARGUMENTS(Buffer_ReadyEvent);
  arguments.buffer = buffer_.get();
  plugin_->check(plugin_->api().PJRT_Buffer_ReadyEvent(&arguments), "wait for a run");
  wait_for(*plugin_, arguments.event, "wait for a run", timeout);
}

void Buffer::to_host(void* data, size_t bytes, std::chrono::milliseconds timeout) const {
  wait(timeout);
  auto dimensions = STRATA_PJRT_ARGUMENTS(Buffer_Dimensions);
  dimensions.buffer = buffer_.get();
  plugin_->check(plugin_->api().PJRT_Buffer_Dimensions(&dimensions), "copy from a device");
  // A device's own order of dimensions may be another one than the program's.
  std::vector<int64_t> minor_to_major(dimensions.num_dims);
  for (size_t d = 0; d < minor_to_major.size(); ++d) {
    minor_to_major[d] = static_cast<int64_t>(minor_to_major.size() - 1 - d);
  }
  auto layout = sized<PJRT_Buffer_MemoryLayout>(PJRT_Buffer_MemoryLayout_STRUCT_SIZE);
  layout.type = PJRT_Buffer_MemoryLayout_Type_Tiled;
  layout.tiled = sized<PJRT_Buffer_MemoryLayout_Tiled>(PJRT_Buffer_MemoryLayout_Tiled_STRUCT_SIZE);
  layout.tiled.minor_to_major = minor_to_major.data();
  layout.tiled.minor_to_major_size = minor_to_major.size();
  auto arguments = STRATA_PJRT_ARGUMENTS(Buffer_ToHostBuffer);
  arguments.src = buffer_.get();
  arguments.host_layout = &layout;
  plugin_->check(plugin_->api().PJRT_Buffer_ToHostBuffer(&arguments), "copy from a device");
  STRATA_CHECK(arguments.dst_size == bytes, kInvalidArgument, "[pjrt] to_host: got memory of ",
               bytes, " bytes for an array of ", arguments.dst_size, "; make it as large");
  if (bytes == 0) return;
  arguments.dst = data;
  plugin_->check(plugin_->api().PJRT_Buffer_ToHostBuffer(&arguments), "copy from a device");
  // No deadline: the plugin writes `data` until the copy ends.
  auto await = STRATA_PJRT_ARGUMENTS(Event_Await);
  await.event = arguments.event;
  PJRT_Error* const error = plugin_->api().PJRT_Event_Await(&await);
  auto destroy = STRATA_PJRT_ARGUMENTS(Event_Destroy);
  destroy.event = arguments.event;
  plugin_->api().PJRT_Event_Destroy(&destroy);
  plugin_->check(error, "copy from a device");
}

bool Buffer::is_deleted() const {
  auto arguments = STRATA_PJRT_ARGUMENTS(Buffer_IsDeleted);
  arguments.buffer = buffer_.get();
  plugin_->check(plugin_->api().PJRT_Buffer_IsDeleted(&arguments), "ask for a buffer");
  return arguments.is_deleted;
}

Executable::Executable(std::shared_ptr<const Plugin> plugin, std::shared_ptr<PJRT_Client> client,
                       PJRT_LoadedExecutable* executable, int64_t num_replicas)
    : plugin_(std::move(plugin)),
      client_(std::move(client)),
      executable_(executable,
                  [plugin = plugin_, client = client_](PJRT_LoadedExecutable* each) {
                    auto arguments = STRATA_PJRT_ARGUMENTS(LoadedExecutable_Destroy);
                    arguments.executable = each;
                    plugin->api().PJRT_LoadedExecutable_Destroy(&arguments);
                  }),
      num_replicas_(num_replicas) {
  auto get = STRATA_PJRT_ARGUMENTS(LoadedExecutable_GetExecutable);
  get.loaded_executable = executable_.get();
  plugin_->check(plugin_->api().PJRT_LoadedExecutable_GetExecutable(&get), "compile");
  auto count = STRATA_PJRT_ARGUMENTS(Executable_NumOutputs);
  count.executable = get.executable;
  PJRT_Error* const error = plugin_->api().PJRT_Executable_NumOutputs(&count);
  auto destroy = STRATA_PJRT_ARGUMENTS(Executable_Destroy);
  destroy.executable = get.executable;
  plugin_->api().PJRT_Executable_Destroy(&destroy);
  plugin_->check(error, "compile");
  num_results_ = count.num_outputs;
}

std::vector<std::vector<Buffer>> Executable::run(
    const std::vector<std::vector<const Buffer*>>& arguments, std::vector<Event>* done) const {
  STRATA_CHECK(
      static_cast<int64_t>(arguments.size()) == num_replicas_ &&
          std::ranges::all_of(arguments,
                              [&](const auto& each) { return each.size() == arguments[0].size(); }),
      kInvalidArgument, "[pjrt] run: got arguments for ", arguments.size(), " replicas; expected ",
      num_replicas_, " lists of one length");
  std::vector<std::vector<PJRT_Buffer*>> in(arguments.size());
  std::vector<std::vector<PJRT_Buffer*>> out(arguments.size(),
                                             std::vector<PJRT_Buffer*>(num_results_));
  std::vector<PJRT_Buffer* const*> in_lists;
  std::vector<PJRT_Buffer**> out_lists;
  for (size_t r = 0; r < arguments.size(); ++r) {
    for (const Buffer* each : arguments[r]) in[r].push_back(each->buffer_.get());
    in_lists.push_back(in[r].data());
    out_lists.push_back(out[r].data());
  }
  auto options = sized<PJRT_ExecuteOptions>(PJRT_ExecuteOptions_STRUCT_SIZE);
  auto execute = STRATA_PJRT_ARGUMENTS(LoadedExecutable_Execute);
  execute.executable = executable_.get();
  execute.options = &options;
  execute.argument_lists = in_lists.data();
  execute.num_devices = in_lists.size();
  execute.num_args = arguments[0].size();
  execute.output_lists = out_lists.data();
  std::vector<PJRT_Event*> events(done == nullptr ? 0 : out.size());
  if (done != nullptr) execute.device_complete_events = events.data();
  plugin_->check(plugin_->api().PJRT_LoadedExecutable_Execute(&execute), "run");
  for (PJRT_Event* each : events) done->push_back(Event(plugin_, client_, each));
  std::vector<std::vector<Buffer>> results(out.size());
  for (size_t r = 0; r < out.size(); ++r) {
    for (PJRT_Buffer* each : out[r]) results[r].push_back(Buffer(plugin_, client_, each));
  }
  return results;
}

}  // namespace strata::pjrt
