#include "strata/summary/event_reader.h"

#include <algorithm>
#include <array>
#include <utility>

#include "core/record_format.h"
#include "strata/core/error.h"
#include "strata/core/file_system.h"
#include "strata/core/log.h"
#include "summary/event_decoder.h"
#include "summary/event_file_name.h"

namespace strata::summary {

using strata::detail::kRecordFooter;
using strata::detail::kRecordHeader;

class EventReader::Impl {
 public:
  explicit Impl(const std::string& path) : path_(path), file_(file_system_of(path).open(path)) {
    std::array<std::byte, kRecordHeader> header{};
    uint64_t length = 0;
    if (file_->read(0, header) == header.size() && !parse(header, length)) {
      throw Error(ErrorCode::kDataLoss,
                  str_cat("[summary] read_events: ", path_,
                          ": got a beginning that is no record; expected an event file"));
    }
  }

  bool next(Event& out) {
    while (!stopped_) {
      std::array<std::byte, kRecordHeader> header{};
      cut_bytes_ = file_->read(offset_, header);
      if (cut_bytes_ < header.size()) return false;
      uint64_t length = 0;
      if (!parse(header, length)) {
        note("the record's length is damaged: what follows cannot be read");
        stopped_ = true;
        break;
      }
      if (!read_data(length)) return false;
      const uint64_t start = offset_;
      offset_ += kRecordHeader + length + kRecordFooter;
      cut_bytes_ = 0;
      const uint32_t crc = strata::detail::little_endian<uint32_t>(data_.data() + length);
      const std::string_view payload(data_.data(), static_cast<size_t>(length));
      if (mask_crc32c(crc32c(payload.data(), payload.size())) != crc) {
        note("the record's checksum is wrong", start);
        continue;
      }
      try {
        out = detail::decode_event(payload);
        return true;
      } catch (const Error& error) {
        note(error.what(), start);
      }
    }
    return false;
  }

  const std::vector<EventFileDamage>& damage() const { return damage_; }
  uint64_t cut_bytes() const { return cut_bytes_; }

 private:
  static bool parse(const std::array<std::byte, kRecordHeader>& header, uint64_t& length) {
    return strata::detail::parse_record_header(reinterpret_cast<const char*>(header.data()),
                                               length);
  }

  // Reads the data and its checksum, piece by piece: a wrong length must not cost memory.
  bool read_data(uint64_t length) {
    constexpr uint64_t kPiece = 1 << 20;
    data_.clear();
    uint64_t left = length + kRecordFooter;
    if (left < length) return false;
    while (left > 0) {
      const auto piece = static_cast<size_t>(std::min(left, kPiece));
      const size_t had = data_.size();
      data_.resize(had + piece);
      const size_t got = file_->read(offset_ + kRecordHeader + had,
                                     std::as_writable_bytes(std::span(data_.data() + had, piece)));
      if (got < piece) {
        cut_bytes_ = kRecordHeader + had + got;
        return false;
      }
      left -= piece;
    }
    return true;
  }

  void note(const std::string& what) { note(what, offset_); }
  void note(const std::string& what, uint64_t offset) { damage_.push_back({offset, what}); }

  std::string path_;
  std::unique_ptr<ReadableFile> file_;
  uint64_t offset_ = 0;
  uint64_t cut_bytes_ = 0;
  bool stopped_ = false;
  std::string data_;
  std::vector<EventFileDamage> damage_;
};

EventReader::EventReader(const std::string& path) : impl_(std::make_unique<Impl>(path)) {}
EventReader::~EventReader() = default;
EventReader::EventReader(EventReader&&) noexcept = default;
EventReader& EventReader::operator=(EventReader&&) noexcept = default;
bool EventReader::next(Event& out) { return impl_->next(out); }
const std::vector<EventFileDamage>& EventReader::damage() const { return impl_->damage(); }
uint64_t EventReader::cut_bytes() const { return impl_->cut_bytes(); }

std::vector<Event> read_events(const std::string& path) {
  EventReader reader(path);
  std::vector<Event> events;
  for (Event event; reader.next(event); event = {}) events.push_back(std::move(event));
  for (const EventFileDamage& damage : reader.damage()) {
    STRATA_LOG(kWarning) << "[summary] read_events: " << path << ", offset " << damage.offset
                         << ": " << damage.what;
  }
  return events;
}

std::vector<Event> read_run(const std::string& folder) {
  std::vector<Event> events;
  for (const std::string& name : file_system_of(folder).list(folder)) {
    if (name.find(detail::kEventFileMark) == std::string::npos) continue;
    for (Event& event : read_events(join_path(folder, name))) events.push_back(std::move(event));
  }
  return events;
}

std::map<std::string, std::vector<ScalarPoint>> scalars_of(const std::vector<Event>& events) {
  std::map<std::string, std::string> plugins;  // the first record of a tag has it
  std::map<std::string, std::vector<ScalarPoint>> curves;
  for (const Event& event : events) {
    for (const SummaryValue& value : event.values) {
      const auto plugin = plugins.try_emplace(value.tag, value.plugin).first;
      if (plugin->second != "scalars" || value.tensor.numbers.size() != 1) continue;
      std::vector<ScalarPoint>& curve = curves[value.tag];
      while (!curve.empty() && curve.back().step >= event.step) curve.pop_back();
      curve.push_back({event.step, event.wall_time, value.tensor.numbers[0]});
    }
  }
  return curves;
}

}  // namespace strata::summary
