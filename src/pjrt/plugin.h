#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "strata/core/error.h"

struct PJRT_Api;
struct PJRT_Error;

namespace strata::pjrt {

/// The variable of the environment that names the plugin's file.
inline constexpr const char* kPluginVariable = "STRATA_PJRT_PLUGIN";

/// A PJRT plugin: a compiler and its devices behind OpenXLA's C interface, in a shared library that is
/// opened while the program runs. strata is linked with none. Plugins cannot be closed: they stay until the
/// program ends, and a file is opened once.
/// Threads: any.
/// Source: pjrt_c_api.h, version 0.81.
class Plugin {
 public:
  /// @param path  Of the shared library. Empty: what STRATA_PJRT_PLUGIN names.
  /// @throws Error  kNotFound: no such file, or no path; says how to get one. kFailedPrecondition: the file
  ///   is no plugin, or one of another major version. Errors of the plugin's initialization.
  static std::shared_ptr<const Plugin> open(const std::string& path = {});

  /// STRATA_PJRT_PLUGIN; nothing if it is not set, or empty.
  static std::optional<std::string> path_from_environment();

  const std::string& path() const { return path_; }
  /// Of its C interface, as "0.81".
  std::string version() const;

  const PJRT_Api& api() const { return *api_; }

  /// Frees `error`, and throws it as strata's with the plugin's message.
  /// @param what  Was called, for the message: "compile".
  void check(PJRT_Error* error, std::string_view what) const;

 private:
  Plugin(std::string path, const PJRT_Api* api) : path_(std::move(path)), api_(api) {}

  std::string path_;
  const PJRT_Api* api_;
};

}  // namespace strata::pjrt
