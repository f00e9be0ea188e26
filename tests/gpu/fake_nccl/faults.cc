#include "gpu/fake_nccl/faults.h"

#include <charconv>
#include <cstdlib>
#include <mutex>
#include <optional>
#include <sstream>

namespace strata::test::fake_nccl {
namespace {

struct Settings {
  std::mutex mutex;
  std::optional<std::string> given;
  uint64_t communicators = 0;
};

Settings& settings() {
  static auto* const all = new Settings();
  return *all;
}

[[noreturn]] void throw_unreadable(const std::string& entry) {
  throw Failure{ncclInvalidArgument, "STRATA_FAKE_NCCL: cannot read \"" + entry + "\""};
}

int64_t number_of(const std::string& text, const std::string& entry) {
  int64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end != text.data() + text.size() || number < 0)
    throw_unreadable(entry);
  return number;
}

bool is_one_of(const std::string& word, std::initializer_list<const char*> all) {
  for (const char* each : all) {
    if (word == each) return true;
  }
  return false;
}

// `stall:rank=1,call=2` or `delay_us=50`.
Fault fault_of(const std::string& entry) {
  Fault fault;
  const size_t colon = entry.find(':');
  if (colon == std::string::npos) {
    const size_t equals = entry.find('=');
    fault.kind = entry.substr(0, equals);
    if (equals == std::string::npos ||
        !is_one_of(fault.kind, {"delay_us", "destroy_ms", "init_ms", "version"})) {
      throw_unreadable(entry);
    }
    fault.value = number_of(entry.substr(equals + 1), entry);
    return fault;
  }
  fault.kind = entry.substr(0, colon);
  if (!is_one_of(fault.kind, {"stall", "error", "init_stall", "init_error"}))
    throw_unreadable(entry);
  std::istringstream settings(entry.substr(colon + 1));
  for (std::string setting; std::getline(settings, setting, ',');) {
    const size_t equals = setting.find('=');
    if (equals == std::string::npos) throw_unreadable(entry);
    const std::string name = setting.substr(0, equals);
    const int64_t number = number_of(setting.substr(equals + 1), entry);
    if (name == "rank") {
      fault.rank = static_cast<int>(number);
    } else if (name == "call") {
      fault.call = static_cast<uint64_t>(number);
    } else if (name == "comm") {
      fault.comm = static_cast<uint64_t>(number);
    } else {
      throw_unreadable(entry);
    }
  }
  return fault;
}

std::vector<Fault> faults_of(const std::string& text) {
  std::vector<Fault> all;
  std::istringstream entries(text);
  for (std::string entry; std::getline(entries, entry, ';');) {
    if (!entry.empty()) all.push_back(fault_of(entry));
  }
  return all;
}

std::vector<Fault> faults_in_force() {
  const std::optional<std::string>& given = settings().given;
  const char* const environment = std::getenv("STRATA_FAKE_NCCL");
  return faults_of(given ? *given : environment == nullptr ? "" : environment);
}

}  // namespace

Faults Faults::of_next_communicator() {
  const std::lock_guard lock(settings().mutex);
  Faults faults;
  faults.comm_ = ++settings().communicators;
  faults.all_ = faults_in_force();
  return faults;
}

bool Faults::has(const std::string& kind, int rank, uint64_t call) const {
  for (const Fault& fault : all_) {
    if (fault.kind != kind) continue;
    if (fault.rank >= 0 && fault.rank != rank) continue;
    if (fault.comm != 0 && fault.comm != comm_) continue;
    if (fault.call == 0 || fault.call == call) return true;
  }
  return false;
}

int64_t Faults::value(const std::string& kind, int64_t otherwise) const {
  for (const Fault& fault : all_) {
    if (fault.kind == kind) return fault.value;
  }
  return otherwise;
}

void set_faults(const char* text) {
  const std::lock_guard lock(settings().mutex);
  if (text != nullptr) faults_of(text);
  settings().communicators = 0;
  settings().given = text == nullptr ? std::nullopt : std::optional<std::string>(text);
}

int version_to_report() {
  const std::lock_guard lock(settings().mutex);
  for (const Fault& fault : faults_in_force()) {
    if (fault.kind == "version") return static_cast<int>(fault.value);
  }
  return NCCL_VERSION_CODE;
}

}  // namespace strata::test::fake_nccl
