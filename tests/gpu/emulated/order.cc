#include "gpu/emulated/order.h"

#include <c10/util/Exception.h>
#include <torch/csrc/profiler/unwind/unwind.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstring>
#include <list>
#include <map>
#include <mutex>
#include <optional>
#include <utility>

#include "strata/core/error.h"

namespace strata::test::emulated_gpu {

struct Pending {
  Work work;
  Clock before;  ///< What is done when it begins.
  std::vector<Bytes> bytes;
};

namespace {

constexpr size_t kHost = 0;
constexpr std::chrono::seconds kDeadline(120);

struct Timeline {
  std::string name;
  Clock clock;
  double ready = 0;  // in modelled time
};

/// The last access to some bytes of a block.
struct Record {
  size_t begin;
  size_t end;
  bool writes;
  Work work;
};

/// Memory that was freed while others used it.
struct Risk {
  size_t size;
  Record record;
};

struct PinnedRead {
  Work work;
  Bytes bytes;
  std::string content;
};

struct PinnedWrite {
  Work work;
  Bytes bytes;
  std::function<void()> arrive;
};

void join(Clock& clock, const Clock& other) {
  if (clock.size() < other.size()) clock.resize(other.size());
  for (size_t i = 0; i < other.size(); ++i) clock[i] = std::max(clock[i], other[i]);
}

bool knows(const Clock& clock, const Work& work) {
  if (work.count == 0) return true;  // before the timeline's first work
  return work.timeline < clock.size() && clock[work.timeline] >= work.count;
}

bool overlap(const Bytes& a, const Bytes& b) {
  return a.begin < b.begin + b.size && b.begin < a.begin + a.size;
}

/// Frames of libtorch, the standard library and these files say nothing about who called.
bool is_of_interest(const torch::unwind::Frame& frame) {
  for (const std::string_view ours : {"emulated", "torch::", "at::", "c10::", "std::", "??"}) {
    if (frame.funcname.starts_with(ours) || frame.funcname.empty()) return false;
  }
  for (const std::string_view file : {"/emulated/", "libtorch", "libc10"}) {
    if (frame.filename.find(file) != std::string::npos) return false;
  }
  return frame.funcname.find("emulated_gpu") == std::string::npos;
}

std::string describe(const std::vector<void*>& frames) {
  constexpr int kPlaces = 3;
  std::string text;
  int places = 0;
  for (const auto& frame : torch::unwind::symbolize(frames, torch::unwind::Mode::fast)) {
    if (!is_of_interest(frame)) continue;
    text += str_cat("\n    ", places == 0 ? "at " : "by ", frame.funcname);
    if (frame.lineno != 0) text += str_cat(" (", frame.filename, ":", frame.lineno, ")");
    if (++places == kPlaces) break;
  }
  return text;
}

std::string describe(const Operation& operation) {
  return str_cat(operation.name, " on ", operation.stream, describe(operation.frames));
}

class Order {
 public:
  static Order& instance() {
    static auto* order = new Order();  // never freed: tensors may outlive what is static
    return *order;
  }

  Work enqueue(const c10::Stream& stream, std::string_view name, const std::vector<Bytes>& reads,
               const std::vector<Bytes>& writes) {
    std::unique_lock lock(mutex_);
    const Work work = begin(stream, name, reads, writes);
    wait_for_motion(lock, timelines_[work.timeline].clock);
    // What a copy brings to the host was brought for this.
    arrive([&](const PinnedWrite& write) {
      return std::ranges::any_of(reads,
                                 [&](const Bytes& bytes) { return overlap(write.bytes, bytes); });
    });
    return work;
  }

  void also_writes(const Work& work, const Bytes& bytes) {
    const std::lock_guard lock(mutex_);
    access(timelines_[work.timeline].clock, work, bytes, /*writes=*/true);
  }

  Event record_event(const c10::Stream& stream) {
    const std::lock_guard lock(mutex_);
    const size_t index = timeline_of(stream);
    Timeline& timeline = timelines_[index];
    join(timeline.clock, timelines_[kHost].clock);
    return {timeline.clock, std::max(timeline.ready, timelines_[kHost].ready), index};
  }

  void wait_event(const c10::Stream& stream, const Event& event) {
    const std::lock_guard lock(mutex_);
    Timeline& timeline = timelines_[timeline_of(stream)];
    join(timeline.clock, event.clock);
    timeline.ready = std::max(timeline.ready, event.seconds);
  }

  int64_t work_behind(const Event& event) {
    const std::lock_guard lock(mutex_);
    const Clock& now = timelines_[event.timeline].clock;
    const auto count = [&](const Clock& clock) {
      return event.timeline < clock.size() ? static_cast<int64_t>(clock[event.timeline]) : 0;
    };
    return count(now) - count(event.clock);
  }

  void take_back_pinned(const Bytes& bytes) {
    const std::lock_guard lock(mutex_);
    std::erase_if(pinned_writes_, [&](const PinnedWrite& write) {
      if (!overlap(write.bytes, bytes)) return false;
      errors_.push_back(str_cat("pinned memory that\n  ", describe(*write.work.operation),
                                "\n  writes was freed, and the host has not waited for that"));
      return true;
    });
  }

  void host_waits_for(const Event& event) {
    std::unique_lock lock(mutex_);
    wait_for_motion(lock, event.clock);
    host_knows(event);
  }

  void host_waits_for_all(c10::DeviceIndex device) {
    std::vector<c10::Stream> streams;
    {
      const std::lock_guard lock(mutex_);
      for (const auto& [stream, timeline] : streams_) {
        if (stream.first != device) continue;
        streams.emplace_back(c10::Stream::UNSAFE, c10::Device(c10::kCUDA, device), stream.second);
      }
    }
    for (const c10::Stream& stream : streams) host_waits_for(record_event(stream));
  }

  bool query(const Event& event) {
    const std::lock_guard lock(mutex_);
    return !any_in_motion(event.clock);
  }

  std::shared_ptr<Pending> enqueue_pending(const c10::Stream& stream, std::string_view name,
                                           const std::vector<Bytes>& reads,
                                           const std::vector<Bytes>& writes) {
    const std::lock_guard lock(mutex_);
    auto pending = std::make_shared<Pending>();
    pending->work = begin(stream, name, reads, writes);
    pending->before = timelines_[pending->work.timeline].clock;
    --pending->before[pending->work.timeline];
    pending->bytes = reads;
    pending->bytes.insert(pending->bytes.end(), writes.begin(), writes.end());
    pending_.push_back(pending);
    return pending;
  }

  void wait_until_ready(const Pending& pending, const std::atomic<bool>& stop) {
    std::unique_lock lock(mutex_);
    while (!stop && any_in_motion(pending.before)) {
      changed_.wait_for(lock, std::chrono::milliseconds(10));
    }
  }

  void complete(Pending& pending) {
    const std::lock_guard lock(mutex_);
    pending_.remove_if([&](const auto& each) { return each.get() == &pending; });
    changed_.notify_all();
  }

  void hand_out(const c10::Stream& stream, const Bytes& bytes) {
    const std::lock_guard lock(mutex_);
    const size_t index = timeline_of(stream);
    // Others may use it behind what its stream has done with it before.
    Work handed_out{.timeline = index, .count = 0, .operation = allocator_of(index)};
    const Clock& own = timelines_[index].clock;
    if (index < own.size()) handed_out.count = own[index];
    blocks_[bytes.begin] = {
        .size = bytes.size,
        .records = {{.begin = 0, .end = bytes.size, .writes = true, .work = handed_out}}};
    const auto risks = risks_.extract(index);
    if (risks.empty()) return;
    Clock clock = timelines_[index].clock;
    join(clock, timelines_[kHost].clock);
    for (const Risk& risk : risks.mapped()) {
      if (knows(clock, risk.record.work)) continue;
      fail(str_cat(risk.size, " bytes were freed, and their stream, ", timelines_[index].name,
                   ", hands out memory again, while nothing orders that behind\n  ",
                   describe(*risk.record.work.operation),
                   "\n  which uses them; keep the tensor until its stream has waited for that, or "
                   "call record_stream"));
    }
  }

  void hand_out_pinned(const Bytes& bytes) {
    const std::lock_guard lock(mutex_);
    blocks_[bytes.begin] = {.size = bytes.size, .records = {}};
    finish_pinned([&](const Work&, const Bytes& each) { return overlap(each, bytes); });
  }

  void take_back(const c10::Stream& stream, const Bytes& bytes,
                 const std::vector<c10::Stream>& recorded_on) {
    const std::lock_guard lock(mutex_);
    const auto block = blocks_.extract(bytes.begin);
    if (block.empty()) return;
    const size_t index = timeline_of(stream);
    Clock clock = timelines_[index].clock;
    join(clock, timelines_[kHost].clock);
    std::vector<size_t> awaited;
    for (const c10::Stream& each : recorded_on) awaited.push_back(timeline_of(each));
    for (const Record& record : block.mapped().records) {
      if (knows(clock, record.work)) continue;
      if (std::ranges::find(awaited, record.work.timeline) != awaited.end()) continue;
      risks_[index].push_back({bytes.size, record});
    }
  }

  bool in_motion(const Bytes& bytes) {
    const std::lock_guard lock(mutex_);
    for (const auto& pending : pending_) {
      for (const Bytes& each : pending->bytes) {
        if (overlap(each, bytes)) return true;
      }
    }
    return false;
  }

  void reads_pinned(const Work& work, const Bytes& bytes) {
    const std::lock_guard lock(mutex_);
    pinned_reads_.push_back({work, bytes, std::string(bytes.begin, bytes.size)});
  }

  void writes_pinned(const Work& work, const Bytes& bytes, std::function<void()> arrive) {
    const std::lock_guard lock(mutex_);
    pinned_writes_.push_back({work, bytes, std::move(arrive)});
  }

  void check_pinned() {
    const std::lock_guard lock(mutex_);
    for (const PinnedRead& read : pinned_reads_) check(read);
  }

  std::vector<std::string> errors() {
    const std::lock_guard lock(mutex_);
    return errors_;
  }

  void forget_errors() {
    const std::lock_guard lock(mutex_);
    errors_.clear();
    risks_.clear();
    pinned_reads_.clear();
  }

  void set_costs(std::function<double(const Cost&)> seconds) {
    const std::lock_guard lock(mutex_);
    costs_ = std::move(seconds);
    spans_.clear();
  }

  std::vector<Span> spans() {
    const std::lock_guard lock(mutex_);
    return spans_;
  }

  double now() {
    const std::lock_guard lock(mutex_);
    double last = 0;
    for (const Timeline& timeline : timelines_) last = std::max(last, timeline.ready);
    return last;
  }

 private:
  struct Block {
    size_t size = 0;
    std::vector<Record> records;
  };

  size_t timeline_of(const c10::Stream& stream) {
    const auto [place, is_new] =
        streams_.try_emplace({stream.device_index(), stream.id()}, timelines_.size());
    if (is_new) timelines_.push_back({.name = name_of(stream), .clock = {}});
    return place->second;
  }

  std::shared_ptr<const Operation> allocator_of(size_t timeline) {
    std::shared_ptr<const Operation>& allocator = allocators_[timeline];
    if (!allocator) {
      allocator = std::make_shared<Operation>(
          Operation{"the allocator, which hands it out,", timelines_[timeline].name, {}});
    }
    return allocator;
  }

  Work begin(const c10::Stream& stream, std::string_view name, const std::vector<Bytes>& reads,
             const std::vector<Bytes>& writes) {
    const size_t index = timeline_of(stream);
    Timeline& timeline = timelines_[index];
    join(timeline.clock, timelines_[kHost].clock);
    if (timeline.clock.size() <= index) timeline.clock.resize(index + 1);
    Work work{.timeline = index, .count = ++timeline.clock[index], .operation = nullptr};
    work.operation = std::make_shared<Operation>(
        Operation{std::string(name), timeline.name, torch::unwind::unwind()});
    size_t read = 0;
    size_t written = 0;
    for (const Bytes& bytes : reads) {
      access(timeline.clock, work, bytes, /*writes=*/false);
      read += bytes.size;
    }
    for (const Bytes& bytes : writes) {
      access(timeline.clock, work, bytes, /*writes=*/true);
      written += bytes.size;
    }
    if (costs_) take_time(timeline, {name, timeline.name, read, written});
    return work;
  }

  void take_time(Timeline& timeline, const Cost& cost) {
    const double seconds = costs_(cost);
    const double begin = std::max(timeline.ready, timelines_[kHost].ready);
    timeline.ready = begin + seconds;
    if (seconds > 0) {
      spans_.push_back({std::string(cost.name), timeline.name, begin, timeline.ready});
    }
  }

  void access(const Clock& clock, const Work& work, const Bytes& bytes, bool writes) {
    if (bytes.size == 0) return;
    auto place = blocks_.upper_bound(bytes.begin);
    if (place == blocks_.begin()) return;
    --place;
    Block& block = place->second;
    const auto begin = static_cast<size_t>(bytes.begin - place->first);
    const size_t end = begin + bytes.size;
    if (begin >= block.size) return;  // in no allocated block
    for (const Record& record : block.records) {
      if (record.end <= begin || record.begin >= end || !(writes || record.writes)) continue;
      if (knows(clock, record.work)) continue;
      fail(str_cat("nothing orders\n  ", describe(*work.operation), "\n  that ",
                   writes ? "writes" : "reads", " memory behind\n  ",
                   describe(*record.work.operation), "\n  that ",
                   record.writes ? "writes" : "reads",
                   " it; record an event behind the second and let the first one's stream wait "
                   "for it"));
    }
    // What follows this access in order follows those, too.
    std::erase_if(block.records, [&](const Record& record) {
      return record.begin >= begin && record.end <= end &&
             (writes || (!record.writes && record.work.timeline == work.timeline));
    });
    block.records.push_back({begin, end, writes, work});
  }

  [[noreturn]] void fail(const std::string& what) {
    errors_.push_back(what);
    TORCH_CHECK(false, "[emulated_gpu] ", what);
  }

  bool any_in_motion(const Clock& clock) const {
    return std::ranges::any_of(pending_,
                               [&](const auto& each) { return knows(clock, each->work); });
  }

  void wait_for_motion(std::unique_lock<std::mutex>& lock, const Clock& clock) {
    const Clock until = clock;
    const bool done = changed_.wait_for(lock, kDeadline, [&] { return !any_in_motion(until); });
    TORCH_CHECK(done, "[emulated_gpu] a collective has not moved its data within ",
                kDeadline.count(), " s");
  }

  void host_knows(const Event& event) {
    Timeline& host = timelines_[kHost];
    join(host.clock, event.clock);
    host.ready = std::max(host.ready, event.seconds);
    finish_pinned([&](const Work& work, const Bytes&) { return knows(host.clock, work); });
  }

  /// Copies from and to pinned memory that are done.
  void finish_pinned(const std::function<bool(const Work&, const Bytes&)>& is_done) {
    arrive([&](const PinnedWrite& write) { return is_done(write.work, write.bytes); });
    for (auto read = pinned_reads_.begin(); read != pinned_reads_.end();) {
      if (!is_done(read->work, read->bytes)) {
        ++read;
        continue;
      }
      const PinnedRead done = std::move(*read);
      read = pinned_reads_.erase(read);
      check(done);
    }
  }

  void arrive(const std::function<bool(const PinnedWrite&)>& is_due) {
    std::erase_if(pinned_writes_, [&](const PinnedWrite& write) {
      if (!is_due(write)) return false;
      write.arrive();
      return true;
    });
  }

  void check(const PinnedRead& read) {
    if (std::memcmp(read.bytes.begin, read.content.data(), read.bytes.size) == 0) return;
    fail(str_cat("the host has written pinned memory that\n  ", describe(*read.work.operation),
                 "\n  reads, and has not waited for that"));
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<Timeline> timelines_ = {{.name = "the host", .clock = {}}};
  std::map<std::pair<c10::DeviceIndex, c10::StreamId>, size_t> streams_;
  std::map<const char*, Block> blocks_;
  std::map<size_t, std::shared_ptr<const Operation>> allocators_;  // by timeline
  std::map<size_t, std::vector<Risk>> risks_;  // by timeline of the stream whose memory it was
  std::list<std::shared_ptr<Pending>> pending_;
  std::list<PinnedRead> pinned_reads_;
  std::list<PinnedWrite> pinned_writes_;
  std::vector<std::string> errors_;
  std::function<double(const Cost&)> costs_;
  std::vector<Span> spans_;
};

}  // namespace

Work enqueue(const c10::Stream& stream, std::string_view name, const std::vector<Bytes>& reads,
             const std::vector<Bytes>& writes) {
  return Order::instance().enqueue(stream, name, reads, writes);
}

void also_writes(const Work& work, const Bytes& bytes) {
  Order::instance().also_writes(work, bytes);
}

Event record_event(const c10::Stream& stream) { return Order::instance().record_event(stream); }

void wait_event(const c10::Stream& stream, const Event& event) {
  Order::instance().wait_event(stream, event);
}

int64_t work_behind(const Event& event) { return Order::instance().work_behind(event); }

void host_waits_for(const Event& event) { Order::instance().host_waits_for(event); }

void host_waits_for(const c10::Stream& stream) {
  Order::instance().host_waits_for(record_event(stream));
}

void host_waits_for_all(c10::DeviceIndex device) { Order::instance().host_waits_for_all(device); }

bool query(const Event& event) { return Order::instance().query(event); }

std::shared_ptr<Pending> enqueue_pending(const c10::Stream& stream, std::string_view name,
                                         const std::vector<Bytes>& reads,
                                         const std::vector<Bytes>& writes) {
  return Order::instance().enqueue_pending(stream, name, reads, writes);
}

void wait_until_ready(const Pending& pending, const std::atomic<bool>& stop) {
  Order::instance().wait_until_ready(pending, stop);
}

void complete(Pending& pending) { Order::instance().complete(pending); }

void hand_out(const c10::Stream& stream, const Bytes& bytes) {
  Order::instance().hand_out(stream, bytes);
}

void take_back(const c10::Stream& stream, const Bytes& bytes,
               const std::vector<c10::Stream>& recorded_on) {
  Order::instance().take_back(stream, bytes, recorded_on);
}

void hand_out_pinned(const Bytes& bytes) { Order::instance().hand_out_pinned(bytes); }

bool in_motion(const Bytes& bytes) { return Order::instance().in_motion(bytes); }

void reads_pinned(const Work& work, const Bytes& bytes) {
  Order::instance().reads_pinned(work, bytes);
}

void writes_pinned(const Work& work, const Bytes& bytes, std::function<void()> arrive) {
  Order::instance().writes_pinned(work, bytes, std::move(arrive));
}

void take_back_pinned(const Bytes& bytes) { Order::instance().take_back_pinned(bytes); }

void check_pinned() { Order::instance().check_pinned(); }

std::vector<std::string> order_errors() { return Order::instance().errors(); }

void forget_order_errors() { Order::instance().forget_errors(); }

void set_costs(std::function<double(const Cost&)> seconds) {
  Order::instance().set_costs(std::move(seconds));
}

std::vector<Span> spans() { return Order::instance().spans(); }

double now() { return Order::instance().now(); }

std::string name_of(const c10::Stream& stream) {
  const std::string device = str_cat("gpu:", static_cast<int>(stream.device_index()));
  if (stream.id() == 0) return str_cat("the default stream of ", device);
  return str_cat("stream ", stream.id(), " of ", device);
}

std::string calling_place() { return describe(torch::unwind::unwind()); }

}  // namespace strata::test::emulated_gpu
