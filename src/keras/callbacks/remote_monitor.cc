#include "strata/keras/callbacks/remote_monitor.h"

#include <cmath>

#include "core/object_store/http.h"
#include "keras/training/training_run.h"
#include "strata/core/error.h"
#include "strata/core/json.h"
#include "strata/core/log.h"

namespace strata::callbacks {
namespace {

/// As forms have it: letters, digits and "-._" as they are, a space as "+", else "%" and two digits.
std::string in_form(std::string_view text) {
  constexpr std::string_view kDigits = "0123456789ABCDEF";
  std::string encoded;
  for (const char each : text) {
    const auto byte = static_cast<unsigned char>(each);
    const bool is_plain = (byte >= 'a' && byte <= 'z') || (byte >= 'A' && byte <= 'Z') ||
                          (byte >= '0' && byte <= '9') || byte == '-' || byte == '.' || byte == '_';
    if (is_plain) {
      encoded += each;
    } else if (each == ' ') {
      encoded += '+';
    } else {
      encoded += {'%', kDigits[byte / 16], kDigits[byte % 16]};
    }
  }
  return encoded;
}

}  // namespace

RemoteMonitor::RemoteMonitor(RemoteMonitorOptions options) : options_(std::move(options)) {
  STRATA_CHECK(options_.root.starts_with("http://") || options_.root.starts_with("https://"),
               kInvalidArgument, "[callbacks] RemoteMonitor: got the root '", options_.root,
               "'; expected a URL such as http://localhost:9000");
  STRATA_CHECK(options_.timeout.count() > 0, kInvalidArgument,
               "[callbacks] RemoteMonitor: got a timeout of ", options_.timeout.count(),
               " ms; expected more than 0");
}

void RemoteMonitor::on_epoch_end(int64_t epoch, keras::Logs& logs) {
  Json values = Json::object().set("epoch", epoch);
  for (const auto& [name, value] : logs.values()) {
    values.set(name, std::isfinite(value) ? Json(value) : Json());
  }
  if (!run().model()->strategy().is_chief()) return;
  const std::string body = options_.send_as_json
                               ? values.dump()
                               : in_form(options_.field) + "=" + in_form(values.dump());
  object_store::HttpRequest request{.method = "POST",
                                    .url = options_.root + options_.path,
                                    .headers = options_.headers,
                                    .body = body};
  request.headers.emplace_back("Content-Type", options_.send_as_json
                                                   ? "application/json"
                                                   : "application/x-www-form-urlencoded");
  try {
    object_store::send_http(request, {.connect = options_.timeout, .total = options_.timeout});
  } catch (const Error& error) {
    if (error.code() != ErrorCode::kUnavailable) throw;
    STRATA_LOG(kWarning) << "[callbacks] RemoteMonitor: the values of epoch " << epoch
                         << " were not sent, and training continues: " << error.what();
  }
}

}  // namespace strata::callbacks
