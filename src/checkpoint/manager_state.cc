#include "checkpoint/manager_state.h"

#include <algorithm>
#include <charconv>

#include "checkpoint/reader.h"
#include "checkpoint/writer.h"
#include "strata/core/error.h"
#include "strata/core/json.h"
#include "strata/core/log.h"

namespace strata::checkpoint {
namespace {

constexpr std::string_view kManagerFormat = "strata.checkpoint_manager";

std::optional<int64_t> number_of(std::string_view entry, std::string_view name) {
  if (!entry.starts_with(name) || entry.substr(name.size()).substr(0, 1) != "-") return {};
  entry.remove_prefix(name.size() + 1);
  int64_t number = 0;
  const auto [end, error] = std::from_chars(entry.data(), entry.data() + entry.size(), number);
  if (error != std::errc() || end != entry.data() + entry.size()) return {};
  return number;
}

/// It was removed since it was listed.
bool vanished(const FileSystem& files, const std::string& folder, const std::string& entry) {
  const std::vector<std::string> entries = files.list(folder);
  return std::find(entries.begin(), entries.end(), entry) == entries.end();
}

std::string state_file(const std::string& folder, const std::string& name) {
  return join_path(folder, str_cat(name, "-manager.json"));
}

}  // namespace

FolderListing list_checkpoints(const std::string& folder, const std::string& name,
                               const std::string& metric) {
  FolderListing listing;
  const FileSystem& files = file_system_of(folder);
  if (!files.info(folder)) return listing;
  for (const std::string& entry : files.list(folder)) {
    const auto number = number_of(entry, name);
    if (!number) continue;
    const std::string path = join_path(folder, entry);
    try {
      const Manifest manifest = check_quickly(path);
      ManagedCheckpoint checkpoint{.path = path, .number = *number, .saved_at = manifest.saved_at};
      const auto value = manifest.metrics.find(metric);
      if (value != manifest.metrics.end()) checkpoint.metric = value->second;
      listing.good.push_back(std::move(checkpoint));
    } catch (const Error& error) {
      // Where checkpoints are not renamed into their place, one that is being written, or was not
      // written to its end, is there without a manifest.
      if (!files.renames_folders() && error.code() == ErrorCode::kNotFound) continue;
      if (vanished(files, folder, entry)) continue;
      listing.damaged.push_back(str_cat(path, " (", error.what(), ")"));
    }
  }
  std::sort(listing.good.begin(), listing.good.end(), [](const auto& a, const auto& b) {
    return a.saved_at != b.saved_at ? a.saved_at < b.saved_at : a.number < b.number;
  });
  return listing;
}

std::optional<PreservedState> read_preserved(const std::string& folder, const std::string& name) {
  const std::string path = state_file(folder, name);
  try {
    if (!file_system_of(path).info(path)) return {};
    const Json json = Json::parse(read_file(path));
    STRATA_CHECK(json.at("format").as_string() == kManagerFormat, kDataLoss, "got format ",
                 json.at("format").as_string(), "; expected ", kManagerFormat);
    PreservedState state{.last_preserved = json.at("last_preserved").as_double()};
    for (const Json& each : json.at("preserved").as_array()) {
      state.preserved.push_back(each.as_string());
    }
    return state;
  } catch (const Error& error) {
    STRATA_LOG(kWarning) << "[checkpoint_manager] " << path << " is passed over: " << error.what();
    return {};
  }
}

void write_preserved(const std::string& folder, const std::string& name,
                     const PreservedState& state) {
  Json preserved = Json::array();
  for (const std::string& each : state.preserved) preserved.push_back(each);
  Json json = Json::object();
  json.set("format", kManagerFormat)
      .set("version", 1)
      .set("last_preserved", state.last_preserved)
      .set("preserved", std::move(preserved));
  write_file_atomically(state_file(folder, name), json.dump(2) + "\n");
}

}  // namespace strata::checkpoint
