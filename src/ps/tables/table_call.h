#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "ps/tables/buffer_pool.h"
#include "ps/tables/mailbox.h"
#include "ps/tables/mapped_memory.h"
#include "ps/tables/request.h"
#include "wire/connection.h"

namespace strata::ps {

class BackupReplicator;

/// The bytes of each contiguous part of a request's data, or of its answer's.
using PartSizes = std::vector<size_t>;

/// A request that a server works on: first its data arrive, then a shard does it, then the answer
/// is sent. Where the worker's memory is mapped, nothing is received or sent: the data and the room
/// for the answer are there. One thread at a time has it.
class TableCall {
 public:
  /// @param mailbox  Where the answer is put, if there is room; null: it goes over the connection.
  TableCall(Request request, std::shared_ptr<wire::Connection> connection, std::string worker,
            std::shared_ptr<Mailbox> mailbox = nullptr)
      : request_(std::move(request)),
        connection_(std::move(connection)),
        worker_(std::move(worker)),
        mailbox_(std::move(mailbox)) {}

  ~TableCall();
  TableCall(const TableCall&) = delete;
  TableCall& operator=(const TableCall&) = delete;

  const Request& request() const { return request_; }
  /// Who asks: "/job:worker/task:1".
  const std::string& worker() const { return worker_; }
  const std::shared_ptr<wire::Connection>& connection() const { return connection_; }

  /// Counts the memory that the call takes here among its worker's `pending` bytes, as long as the
  /// call lives. @throws Error  kResourceExhausted: that is more than `limit` in all.
  void charge(std::shared_ptr<std::atomic<uint64_t>> pending, uint64_t limit,
              const PartSizes& answer);

  /// Starts to receive the numbers of rows and the data that the request says will follow.
  void receive(BufferPool& pool, const PartSizes& data);
  /// Of elements in the worker's memory, in bytes.
  struct Alignments {
    size_t data;
    size_t answer;
  };
  /// In the place of `receive`: they are in the worker's memory, and so is the room for the answer.
  /// @throws Error  kInvalidArgument: they are not.
  void take_in_place(BufferPool& pool, const MappedMemory& memory, const PartSizes& data,
                     const PartSizes& answer, const Alignments& alignments);
  bool in_place() const { return in_place_; }
  /// Whether the worker runs, or waits, on the core of the thread that asks: then what either
  /// writes for the other stays in this core's caches.
  bool is_on_this_core() const;

  /// Calls `inspect(first, data, bytes)` for the data that have come since the last time, which are
  /// still in the caches; `first` bytes of data are before them. @return whether all have come, or
  /// failed.
  bool take_arrived(
      const std::function<void(size_t first, const std::byte*, size_t bytes)>& inspect);
  /// @throws Error  What came was not that, or the worker is lost. Once all have come.
  void check_received() const;

  /// Of the data: the first element that is infinite or NaN.
  std::optional<int64_t> not_finite = std::nullopt;

  /// Its answer, and the memory that its data are in, wait until the backup has what is behind it.
  void answer_through(BackupReplicator& backup) { backup_ = &backup; }

  /// Of a contiguous part of the data.
  const std::byte* data(size_t part) const { return data_parts_[part]; }
  const PartSizes& data_sizes() const { return data_sizes_; }
  const int64_t* rows() const { return reinterpret_cast<const int64_t*>(rows_); }

  /// Finds memory for the answer's data, which `send` sends from the front on, so many bytes of one
  /// part at a time. Where the data that came are as many, it is the data's: it is in the caches,
  /// and no caller needs them behind the place that the answer has come to (but a backup).
  void make_room(BufferPool& pool, const PartSizes& answer);
  std::byte* room(size_t part) const { return room_parts_[part]; }
  /// Where that fails, the worker loses its connection: the table's update must not stop halfway.
  void send(size_t part, size_t offset, size_t bytes) noexcept;
  /// The answer; the data stand before it. Nothing where a backup does what its server did.
  void reply(Reply reply);
  /// From now on `reply` keeps the answer for `send_kept_reply`.
  void keep_reply() { keeps_reply_ = true; }
  /// And no more.
  void stop_keeping_reply() { keeps_reply_ = false; }
  void send_kept_reply();
  /// All of the answer has been sent, or never will.
  bool sent() const;

 private:
  wire::Tag tag() const { return {.channel = kDataChannel, .id = request_.id}; }

  const Request request_;
  const std::shared_ptr<wire::Connection> connection_;
  const std::string worker_;
  const std::shared_ptr<Mailbox> mailbox_;
  BackupReplicator* backup_ = nullptr;
  const std::byte* rows_ = nullptr;
  std::vector<const std::byte*> data_parts_;
  PartSizes data_sizes_;
  std::vector<std::byte*> room_parts_;

  bool in_place_ = false;
  std::vector<std::shared_ptr<std::byte>> memory_;  // of the worker, that is held

  bool keeps_reply_ = false;
  std::optional<Reply> kept_reply_;

  std::shared_ptr<std::atomic<uint64_t>> pending_;  // null: not charged
  uint64_t charged_ = 0;
  BufferPool::Buffer row_buffer_;
  BufferPool::Buffer data_buffer_;
  BufferPool::Buffer answer_buffer_;
  size_t arrived_ = 0;                    // of `receives_`, from the front
  size_t inspected_ = 0;                  // bytes of the data
  std::vector<size_t> sizes_;             // of `receives_`; 0: not data
  std::vector<wire::Transfer> receives_;  // behind the buffers, which they use
  std::vector<wire::Transfer> sends_;
};

/// To a worker that may be lost: then the server will notice.
void send_reply(wire::Connection& to, const Reply& reply);

}  // namespace strata::ps
