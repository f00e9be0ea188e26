// `strata inspect events.out.tfevents...`, and a folder of such: what TensorBoard will show.
#include <algorithm>
#include <iomanip>
#include <iostream>
#include <vector>

#include "core/join.h"
#include "strata/core/error.h"
#include "strata/core/file_system.h"
#include "strata/summary/event_reader.h"
#include "tools/inspect/inspect.h"

namespace strata::tools {
namespace {

using summary::Event;
using summary::SummaryValue;

/// What a tag's records have in common, in the order in which tags appear.
struct Tag {
  std::string name;
  std::string kind;  ///< The plugin that shows it, which the first record names.
  int64_t count = 0;
  int64_t first_step = 0, last_step = 0;
  std::string first = {}, last = {};
};

bool is_event_file(std::string_view name) {
  return name.find("tfevents") != std::string_view::npos;
}

/// A scalar's number, a text's beginning, an image's size; else dtype and shape.
std::string shown(const SummaryValue& value, const std::string& kind) {
  const summary::SummaryTensor& tensor = value.tensor;
  if (kind == "scalars" && !tensor.numbers.empty()) return str_cat(tensor.numbers[0]);
  if (kind == "text" && !tensor.strings.empty()) return quoted(tensor.strings[0], 24);
  if (kind == "images" && tensor.strings.size() >= 2) {
    return str_cat(tensor.strings[0], " x ", tensor.strings[1]);
  }
  return str_cat(tensor.dtype, " [", join(tensor.shape), ']');
}

void see(const Event& event, std::vector<Tag>& tags) {
  for (const SummaryValue& value : event.values) {
    auto tag = std::ranges::find(tags, value.tag, &Tag::name);
    if (tag == tags.end()) {
      // Numbers without a plugin are scalars of before TensorFlow 2.
      const bool old = value.plugin.empty() && value.tensor.numbers.size() == 1;
      tags.push_back({.name = value.tag,
                      .kind = old                    ? "scalars"
                              : value.plugin.empty() ? "-"
                                                     : value.plugin,
                      .first_step = event.step});
      tag = tags.end() - 1;
      tag->first = shown(value, tag->kind);
    }
    ++tag->count;
    tag->last_step = event.step;
    tag->last = shown(value, tag->kind);
  }
}

void print_tags(const std::vector<Tag>& tags) {
  size_t name = 3, kind = 4;
  for (const Tag& tag : tags) {
    name = std::max(name, tag.name.size());
    kind = std::max(kind, tag.kind.size());
  }
  for (const Tag& tag : tags) {
    std::cout << "  " << std::left << std::setw(static_cast<int>(name)) << tag.name << "  "
              << std::setw(static_cast<int>(kind)) << tag.kind << std::right << "  "
              << counted(tag.count, "record") << ", step " << tag.first_step;
    if (tag.count > 1) std::cout << " to " << tag.last_step;
    std::cout << "  " << tag.first;
    if (tag.count > 1) std::cout << " to " << tag.last;
    std::cout << '\n';
  }
}

/// @return Damaged records.
size_t read(const std::string& path, std::vector<Tag>& tags, int64_t& events) {
  summary::EventReader reader(path);
  for (Event event; reader.next(event); ++events) {
    if (!event.graph_def.empty()) {
      std::cout << "graph of " << counted(static_cast<int64_t>(event.graph_def.size()), "byte")
                << ", step " << event.step << '\n';
    }
    see(event, tags);
  }
  for (const summary::EventFileDamage& damage : reader.damage()) {
    std::cout << "damaged at byte " << damage.offset << ": " << damage.what << '\n';
  }
  if (reader.cut_bytes() > 0) {
    std::cout << counted(static_cast<int64_t>(reader.cut_bytes()), "byte")
              << " of a record that is not whole; its writer may be at work\n";
  }
  return reader.damage().size();
}

void print_events(const InspectPath& path, const InspectOptions&) {
  std::vector<std::string> files;
  if (path.is_folder) {
    for (const std::string& name : file_system_of(path.path).list(path.path)) {
      if (is_event_file(name)) files.push_back(join_path(path.path, name));
    }
    std::cout << counted(static_cast<int64_t>(files.size()), "event file") << '\n';
  } else {
    files.push_back(path.path);
  }
  std::vector<Tag> tags;
  int64_t events = 0;
  size_t damaged = 0;
  for (const std::string& file : files) damaged += read(file, tags, events);
  print_tags(tags);
  std::cout << counted(events, "event") << ", " << counted(static_cast<int64_t>(tags.size()), "tag")
            << '\n';
  STRATA_CHECK(damaged == 0, kDataLoss, "[strata inspect] ", path.path,
               " is damaged; expected the contents listed above");
}

bool has_events(const InspectPath& path) {
  if (!path.is_folder) return is_event_file(path.name());
  const auto all = file_system_of(path.path).list(path.path);
  return std::ranges::any_of(all, is_event_file);
}

}  // namespace

const InspectKind kInspectEvents = {
    .name = "TensorBoard event file", .recognises = has_events, .print = print_events};

}  // namespace strata::tools
