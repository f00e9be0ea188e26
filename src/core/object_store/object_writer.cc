#include <algorithm>
#include <future>
#include <string>
#include <utility>
#include <vector>

#include "core/object_store/object_file.h"
#include "strata/core/error.h"
#include "strata/core/log.h"

namespace strata::object_store {
namespace {

constexpr size_t kPart = size_t{8} << 20;
/// Stores take 10,000 parts: after so many, parts are twice as large.
constexpr size_t kPartsOfASize = 1000;
constexpr size_t kPartsOnTheWay = 4;

class ObjectWriter final : public WritableFile {
 public:
  ObjectWriter(const Store& store, ObjectPath path) : store_(store), path_(std::move(path)) {}
  ObjectWriter(const ObjectWriter&) = delete;
  ObjectWriter& operator=(const ObjectWriter&) = delete;
  ~ObjectWriter() override {
    try {
      give_up();
    } catch (const std::exception& error) {
      STRATA_VLOG(1) << "[core] while giving up: " << error.what();
    }
  }

  void append(std::span<const std::byte> bytes) override {
    if (bytes.empty()) return;
    is_there_ = false;
    if (sent_ > 0 && upload_.empty()) read_back();
    std::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
    while (!text.empty()) {
      const std::string_view taken = text.substr(0, part_size() - rest_.size());
      rest_ += taken;
      text.remove_prefix(taken.size());
      if (rest_.size() == part_size()) send_part();
    }
  }

  void sync() override {
    if (is_there_) return;
    if (upload_.empty()) {
      store_.put(path_, rest_);
    } else {
      if (!rest_.empty()) send_part();
      wait_for(0);
      store_.finish_upload(path_, upload_, tags_, sent_);
      upload_.clear();
      tags_.clear();
    }
    is_there_ = true;
  }

  void close() override { sync(); }

 private:
  size_t part_size() const { return kPart << (tags_.size() + on_the_way_.size()) / kPartsOfASize; }

  void send_part() {
    if (upload_.empty()) upload_ = store_.begin_upload(path_);
    wait_for(kPartsOnTheWay - 1);
    const int number = static_cast<int>(tags_.size() + on_the_way_.size()) + 1;
    sent_ += rest_.size();
    on_the_way_.push_back(
        std::async(std::launch::async, [this, number, bytes = std::exchange(rest_, {})] {
          return store_.upload_part(path_, upload_, number, bytes);
        }));
  }

  /// Until so many parts are on their way at most.
  void wait_for(size_t most) {
    while (on_the_way_.size() > most) {
      std::future<std::string> first = std::move(on_the_way_.front());
      on_the_way_.erase(on_the_way_.begin());
      tags_.push_back(first.get());
    }
  }

  /// What was sent in parts and put together is the beginning of what is to be sent.
  void read_back() {
    const auto info = store_.head(path_);
    STRATA_CHECK(info && info->size == sent_, kUnavailable, "[core] write: ", path_.whole,
                 ": was changed by another program while it was written; give each writer a name "
                 "of its own");
    const auto file = open_object(store_, path_, *info);
    const uint64_t size = std::exchange(sent_, 0);
    for (uint64_t done = 0; done < size;) {
      rest_.resize(std::min<uint64_t>(part_size(), size - done));
      done += file->read(done, std::as_writable_bytes(std::span(rest_)));
      if (rest_.size() == part_size()) send_part();
    }
  }

  void give_up() {
    for (std::future<std::string>& part : on_the_way_) part.wait();
    if (!upload_.empty()) store_.abort_upload(path_, upload_);
  }

  const Store& store_;
  const ObjectPath path_;
  std::string rest_;               // not sent yet, or, of an object of one request, all
  bool is_there_ = false;          // as it is
  std::string upload_;             // empty: none is under way
  uint64_t sent_ = 0;              // bytes, in parts
  std::vector<std::string> tags_;  // of the parts that have arrived
  std::vector<std::future<std::string>> on_the_way_;
};

}  // namespace

std::unique_ptr<WritableFile> create_object(const Store& store, ObjectPath path) {
  return std::make_unique<ObjectWriter>(store, std::move(path));
}

}  // namespace strata::object_store
