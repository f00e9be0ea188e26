#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "pjrt/element_type.h"
#include "pjrt/event.h"
#include "pjrt/plugin.h"

struct PJRT_Buffer;
struct PJRT_Client;
struct PJRT_Device;
struct PJRT_LoadedExecutable;

namespace strata::pjrt {

class Buffer;
class Executable;

/// An option of a plugin: `{"cpu_device_count", int64_t{8}}`.
using ClientOption = std::pair<std::string, std::variant<std::string, int64_t, float, bool>>;

struct CompileOptions {
  int64_t num_replicas = 1;
  /// Indices of the devices that replicas run on, as many as there are replicas. Empty: the first ones.
  std::vector<int64_t> devices = {};
};

/// A connection to a plugin's devices. Buffers and executables keep it alive. Copies are the same client.
/// Threads: any.
class Client {
 public:
  /// @throws Error  The plugin's, such as kInvalidArgument: it does not know an option.
  explicit Client(std::shared_ptr<const Plugin> plugin,
                  const std::vector<ClientOption>& options = {});

  const Plugin& plugin() const { return *plugin_; }
  /// "cpu", "tpu".
  std::string platform() const;
  /// Devices that this process computes on.
  int64_t num_devices() const { return static_cast<int64_t>(devices_.size()); }

  /// Copies an array to a device. @param data  `type.bytes()` bytes; free after the call.
  Buffer to_device(const void* data, const ArrayType& type, int64_t device) const;

  /// @param program  StableHLO as text, a module with a function @main.
  /// @throws Error  The plugin's, with what it has against the program.
  Executable compile(const std::string& program, const CompileOptions& options = {}) const;

 private:
  std::shared_ptr<const Plugin> plugin_;
  std::shared_ptr<PJRT_Client> client_;
  std::vector<PJRT_Device*> devices_;
};

/// An array on a device. Threads: any; `to_host` of one buffer by several at a time is well-defined.
class Buffer {
 public:
  /// Waits until it is computed, and copies it. @param data  `bytes` bytes, which the array must have.
  /// @throws Error  kDeadlineExceeded: it is not computed after `timeout`. kInvalidArgument: the array is
  ///   larger or smaller. The error of what computes it.
  void to_host(void* data, size_t bytes, std::chrono::milliseconds timeout = kDefaultTimeout) const;

  /// Waits until it is computed. @throws as `to_host`.
  void wait(std::chrono::milliseconds timeout = kDefaultTimeout) const;

  /// Whether a run has taken its memory for a result (donation).
  bool is_deleted() const;

 private:
  friend class Client;
  friend class Executable;
  Buffer(std::shared_ptr<const Plugin> plugin, std::shared_ptr<PJRT_Client> client,
         PJRT_Buffer* buffer);

  std::shared_ptr<const Plugin> plugin_;
  std::shared_ptr<PJRT_Buffer> buffer_;
};

/// A compiled program, ready on its replicas' devices. Threads: any; runs of programs in which replicas
/// meet must be in one order, so from one thread.
class Executable {
 public:
  size_t num_results() const { return num_results_; }

  /// Starts a run on all replicas and returns; buffers wait for their elements.
  /// @param arguments  A list a replica, on its device. Those that the program donates are deleted.
  /// @param done  Gets an event a replica: its part of the run has ended.
  /// @return The results, a list a replica.
  std::vector<std::vector<Buffer>> run(const std::vector<std::vector<const Buffer*>>& arguments,
                                       std::vector<Event>* done = nullptr) const;

 private:
  friend class Client;
  Executable(std::shared_ptr<const Plugin> plugin, std::shared_ptr<PJRT_Client> client,
             PJRT_LoadedExecutable* executable, int64_t num_replicas);

  std::shared_ptr<const Plugin> plugin_;
  std::shared_ptr<PJRT_Client> client_;
  std::shared_ptr<PJRT_LoadedExecutable> executable_;
  int64_t num_replicas_;
  size_t num_results_ = 0;
};

}  // namespace strata::pjrt
