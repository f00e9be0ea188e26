#pragma once

#include <chrono>
#include <string>
#include <utility>
#include <vector>

#include "strata/core/export.h"
#include "strata/keras/callback.h"

namespace strata::callbacks {

struct RemoteMonitorOptions {
  std::string root = "http://localhost:9000";  ///< The server's URL, http or https.
  std::string path = "/publish/epoch/end/";    ///< Below it.
  std::string field = "data";                  ///< The form's, where `send_as_json` is false.
  std::vector<std::pair<std::string, std::string>> headers = {};
  /// The body is the JSON itself, "application/json"; else a form with one field.
  bool send_as_json = false;
  /// Of a whole request, so long training waits at most in an epoch.
  std::chrono::milliseconds timeout = std::chrono::seconds(10);
};

/// Sends the values of each epoch to a server: an HTTP POST of `{"epoch": 0, "loss": 0.5}`, by the
/// chief alone. A server that does not answer in time is a warning in the log, whatever it answers
/// is ignored. A value that is no finite number is null. Source: keras.callbacks.RemoteMonitor.
class STRATA_API RemoteMonitor : public Callback {
 public:
  /// @throws Error kInvalidArgument: a URL that is neither http nor https, a time that is not
  ///   positive.
  explicit RemoteMonitor(RemoteMonitorOptions options = {});

  /// @throws Error kUnimplemented: libcurl is missing.
  void on_epoch_end(int64_t epoch, keras::Logs& logs) override;

 private:
  RemoteMonitorOptions options_;
};

}  // namespace strata::callbacks
