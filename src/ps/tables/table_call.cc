#include "ps/tables/table_call.h"

#include <algorithm>
#include <cstring>
#include <numeric>

#include "core/current_core.h"
#include "ps/tables/backup_replicator.h"
#include "ps/tables/message_blocks.h"
#include "strata/core/error.h"
#include "strata/core/log.h"

namespace strata::ps {
namespace {

template <typename Byte>
void lay_out(const PartSizes& sizes, Byte* at, std::vector<Byte*>& parts) {
  parts.clear();
  for (const size_t size : sizes) {
    parts.push_back(at);
    at += size;
  }
}

size_t total(const PartSizes& sizes) {
  return std::accumulate(sizes.begin(), sizes.end(), size_t{0});
}

}  // namespace

TableCall::~TableCall() {
  if (pending_ != nullptr) pending_->fetch_sub(charged_);
}

void TableCall::charge(std::shared_ptr<std::atomic<uint64_t>> pending, uint64_t limit,
                       const PartSizes& answer) {
  // `data_sizes_of` has held rows and bytes against the table: nothing here can overflow.
  charged_ = sizeof(TableCall) + request_.table.size() + request_.text.size() +
             (request_.memory.size() + request_.rows) * sizeof(int64_t);
  if (request_.memory.empty()) charged_ += request_.data_bytes + total(answer);
  pending_ = std::move(pending);
  const uint64_t others = pending_->fetch_add(charged_);
  STRATA_CHECK(charged_ <= limit - std::min(others, limit), kResourceExhausted,
               "[ps] got a request of ", charged_, " bytes from ", worker_, " while requests of ",
               others, " bytes wait for their turn; a worker may have ", limit,
               " under way (ServerLimits::pending); take the answers first, or "
               "raise it");
}

void TableCall::receive(BufferPool& pool, const PartSizes& data) {
  const auto post = [&](const BufferPool::Buffer& buffer, const PartSizes& sizes) {
    std::byte* to = buffer.data();
    for (const size_t size : sizes) {
      for_each_message(size, [&](size_t offset, size_t bytes) {
        receives_.push_back(connection_->receive(tag(), {to + offset, bytes}));
        sizes_.push_back(&buffer == &data_buffer_ ? bytes : 0);
      });
      to += size;
    }
  };
  if (request_.rows > 0) {
    row_buffer_ = pool.take(request_.rows * sizeof(int64_t));
    rows_ = row_buffer_.data();
    post(row_buffer_, {row_buffer_.size()});
  }
  data_sizes_ = data;
  if (request_.data_bytes > 0) {
    data_buffer_ = pool.take(request_.data_bytes);
    post(data_buffer_, data);
  }
  lay_out<const std::byte>(data_sizes_, data_buffer_.data(), data_parts_);
}

void TableCall::take_in_place(BufferPool& pool, const MappedMemory& memory, const PartSizes& data,
                              const PartSizes& answer, const Alignments& alignments) {
  in_place_ = true;
  const std::vector<uint64_t>& places = request_.memory;
  size_t next = 0;
  const auto take = [&](size_t bytes, size_t alignment) -> std::byte* {
    if (bytes == 0) return nullptr;
    STRATA_CHECK(next + 2 <= places.size(), kInvalidArgument, "[ps] got ", places.size() / 2,
                 " places in the memory of ", worker_, "; expected more");
    STRATA_CHECK(places[next + 1] % alignment == 0, kInvalidArgument, "[ps] got offset ",
                 places[next + 1], " in the memory of ", worker_, "; expected a multiple of ",
                 alignment);
    memory_.push_back(memory.at(places[next], places[next + 1], bytes));
    next += 2;
    return memory_.back().get();
  };
  if (const size_t bytes = request_.rows * sizeof(int64_t); bytes > 0) {
    // Copied: they are checked and then used, and the worker could change them in between.
    row_buffer_ = pool.take(bytes);
    std::memcpy(row_buffer_.data(), take(bytes, 1), bytes);
    rows_ = row_buffer_.data();
  }
  data_sizes_ = data;
  for (const size_t bytes : data) data_parts_.push_back(take(bytes, alignments.data));
  for (const size_t bytes : answer) room_parts_.push_back(take(bytes, alignments.answer));
  STRATA_CHECK(next == places.size(), kInvalidArgument, "[ps] got ", places.size() / 2,
               " places in the memory of ", worker_, "; expected ", next / 2);
}

bool TableCall::is_on_this_core() const {
  return request_.core != 0 && request_.core == strata::detail::current_core();
}

bool TableCall::take_arrived(
    const std::function<void(size_t first, const std::byte*, size_t bytes)>& inspect) {
  for (; arrived_ < receives_.size() && receives_[arrived_].done(); ++arrived_) {
    const size_t bytes = sizes_[arrived_];
    if (bytes == 0) continue;
    if (receives_[arrived_].status().ok()) {
      inspect(inspected_, data_buffer_.data() + inspected_, bytes);
    }
    inspected_ += bytes;
  }
  return arrived_ == receives_.size();
}

void TableCall::check_received() const {
  for (const wire::Transfer& transfer : receives_) transfer.status().throw_if_error();
}

void TableCall::make_room(BufferPool& pool, const PartSizes& answer) {
  if (in_place_) return;
  const size_t bytes = total(answer);
  const bool reuses = data_buffer_.size() == bytes && backup_ == nullptr;
  if (!reuses) answer_buffer_ = pool.take(bytes);
  lay_out(answer, reuses ? data_buffer_.data() : answer_buffer_.data(), room_parts_);
}

void TableCall::send(size_t part, size_t offset, size_t bytes) noexcept {
  if (in_place_) return;
  try {
    sends_.push_back(connection_->send(tag(), {room_parts_[part] + offset, bytes}));
  } catch (...) {
    connection_->fail(Status::from_current_exception());
  }
}

void TableCall::reply(Reply reply) {
  if (!request_.worker.empty()) return;  // that server answers
  reply.id = request_.id;
  if (keeps_reply_) {
    kept_reply_ = std::move(reply);
    return;
  }
  if (backup_ != nullptr) {
    backup_->pass(connection_, std::move(reply));
  } else if (mailbox_ == nullptr || !mailbox_->reply.put(encode(reply))) {
    send_reply(*connection_, reply);
  }
}

void TableCall::send_kept_reply() {
  if (kept_reply_) reply(*std::exchange(kept_reply_, std::nullopt));
}

bool TableCall::sent() const {
  return std::ranges::all_of(sends_, [](const wire::Transfer& each) { return each.done(); });
}

void send_reply(wire::Connection& to, const Reply& reply) {
  try {
    to.send_message(kTableChannel, encode(reply));
  } catch (const Error& error) {
    STRATA_VLOG(4) << "[ps] no answer to " << to.peer().task << ": " << error.what();
  }
}

}  // namespace strata::ps
