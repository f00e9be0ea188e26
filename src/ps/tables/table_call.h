#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "ps/tables/buffer_pool.h"
#include "ps/tables/request.h"
#include "strata/wire/connection.h"

namespace strata::ps {

class Standby;

/// A request that a server works on: first its data arrive, then a shard does it, then the answer
/// goes out. One thread at a time has it.
class TableCall {
 public:
  TableCall(Request request, std::shared_ptr<wire::Connection> connection, std::string worker)
      : request_(std::move(request)),
        connection_(std::move(connection)),
        worker_(std::move(worker)) {}

  const Request& request() const { return request_; }
  /// Who asks: "/job:worker/task:1".
  const std::string& worker() const { return worker_; }
  const std::shared_ptr<wire::Connection>& connection() const { return connection_; }

  /// Starts to receive the numbers of rows and the data that the request says will follow.
  /// @param contiguous  The bytes of each contiguous part of the data.
  void receive(BufferPool& pool, const std::vector<size_t>& contiguous);
  /// Calls `inspect(offset, bytes)` for the data that have come since the last time, which are
  /// still in the caches. @return whether all have come, or failed.
  bool take_arrived(const std::function<void(size_t offset, size_t bytes)>& inspect);
  /// @throws Error  What came was not that, or the worker is gone. Once all have come.
  void check_received() const;

  /// Of the data: the first element that is infinite or NaN.
  std::optional<int64_t> not_finite = std::nullopt;

  /// Its answer, and the memory that its data are in, wait until the standby has what is behind it.
  void answer_through(Standby& standby) { standby_ = &standby; }

  const std::byte* data() const { return data_.data(); }
  const int64_t* rows() const { return reinterpret_cast<const int64_t*>(rows_.data()); }

  /// Memory for the answer's data, `bytes` in all, which `send` sends from the front on. Where the
  /// data that came are as many, it is theirs: it is in the caches, and nobody needs them behind
  /// the place that the answer has come to.
  std::byte* make_room(BufferPool& pool, size_t bytes);
  void send(size_t bytes);
  /// The answer; the data stand before it. Nothing where a standby does what its server did.
  void reply(Reply reply);
  /// All of the answer has gone out, or never will.
  bool sent() const;

 private:
  wire::Tag tag() const { return {.channel = kDataChannel, .id = request_.id}; }

  const Request request_;
  const std::shared_ptr<wire::Connection> connection_;
  const std::string worker_;
  Standby* standby_ = nullptr;
  BufferPool::Buffer rows_;
  BufferPool::Buffer data_;
  BufferPool::Buffer answer_;
  std::byte* room_ = nullptr;             // of the answer
  size_t answered_ = 0;                   // bytes of it that `send` has begun to send
  size_t arrived_ = 0;                    // of `receives_`, from the front
  size_t inspected_ = 0;                  // bytes of the data
  std::vector<size_t> sizes_;             // of `receives_`; 0: not data
  std::vector<wire::Transfer> receives_;  // behind the buffers, which they use
  std::vector<wire::Transfer> sends_;
};

/// To a worker that may be gone: then the server will notice.
void send_reply(wire::Connection& to, const Reply& reply);

}  // namespace strata::ps
