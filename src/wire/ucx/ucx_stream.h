#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "wire/stream.h"
#include "wire/ucx/ucx_worker.h"

namespace strata::wire {

/// A stream that begins as `tcp` and continues over an endpoint of UCX. Over TCP each side tells
/// its worker's address and, at the end, how many bytes there were; its end without that is the
/// peer's death. Bytes are copied into messages of kChunk; at most kWindow of them are not yet
/// taken.
class UcxStream final : public Stream, private UcxReceiver {
 public:
  UcxStream(std::unique_ptr<Stream> tcp, UcxWorker& worker)
      : tcp_(std::move(tcp)), worker_(worker) {}
  ~UcxStream() override { close(); }

  void watch(uint64_t key) override;
  Outcome establish() override;
  std::string_view upgrade_protocol() const override { return "ucx"; }
  Outcome upgrade() override;
  Result write(std::span<const iovec> parts) override;
  Result read(std::span<const iovec> parts) override;
  Outcome flush() override;
  uint64_t bytes_produced() const override { return sent_; }
  uint64_t bytes_flushed() const override;
  void end() override;
  bool received_any_bytes() const override { return tcp_->received_any_bytes(); }
  void close() override;

 private:
  static constexpr uint64_t kWindow = uint64_t{4} << 20;

  struct Piece {
    std::byte* bytes;
    size_t size;
    size_t read = 0;
  };

  void came(uint64_t offset, std::byte* bytes, size_t size) override
      STRATA_REQUIRES(worker_.mutex());
  void taken(uint64_t bytes) override STRATA_REQUIRES(worker_.mutex());
  void passed(size_t bytes) override STRATA_REQUIRES(worker_.mutex());
  void endpoint_failed(const Status& why) override STRATA_REQUIRES(worker_.mutex());

  Result take(std::span<const iovec> parts) STRATA_REQUIRES(worker_.mutex());
  void look_at_tcp() STRATA_REQUIRES(worker_.mutex());
  void hear_address() STRATA_REQUIRES(worker_.mutex());
  bool flush_tcp() STRATA_REQUIRES(worker_.mutex());
  void fail(Status why) STRATA_REQUIRES(worker_.mutex());

  const std::unique_ptr<Stream> tcp_;
  UcxWorker& worker_;
  bool begun_ = false;
  bool told_hello_ STRATA_GUARDED_BY(worker_.mutex()) = false;  // over the endpoint
  bool heard_hello_ STRATA_GUARDED_BY(worker_.mutex()) = false;
  bool closed_ STRATA_GUARDED_BY(worker_.mutex()) = false;
  bool ended_ STRATA_GUARDED_BY(worker_.mutex()) = false;      // end() was called
  bool tcp_ended_ STRATA_GUARDED_BY(worker_.mutex()) = false;  // by the peer
  uint64_t key_ STRATA_GUARDED_BY(worker_.mutex()) = 0;
  uint64_t id_ STRATA_GUARDED_BY(worker_.mutex()) = 0;
  uint64_t peers_id_ STRATA_GUARDED_BY(worker_.mutex()) = 0;
  ucp_ep_h endpoint_ STRATA_GUARDED_BY(worker_.mutex()) = nullptr;
  std::string to_tell_ STRATA_GUARDED_BY(worker_.mutex());  // over TCP
  std::string told_ STRATA_GUARDED_BY(worker_.mutex());     // and what came there
  std::optional<Status> failure_ STRATA_GUARDED_BY(worker_.mutex());
  std::optional<Status> endpoint_failure_
      STRATA_GUARDED_BY(worker_.mutex());  // no sends; TCP has the cause

  uint64_t sent_ = 0;
  uint64_t flushed_bytes_ STRATA_GUARDED_BY(worker_.mutex()) = 0;
  uint64_t taken_ STRATA_GUARDED_BY(worker_.mutex()) = 0;  // by the peer

  std::deque<Piece> pieces_ STRATA_GUARDED_BY(worker_.mutex());
  std::map<uint64_t, Piece> ahead_
      STRATA_GUARDED_BY(worker_.mutex());  // of an earlier one that is still to come
  uint64_t came_ STRATA_GUARDED_BY(worker_.mutex()) = 0;
  uint64_t read_ STRATA_GUARDED_BY(worker_.mutex()) = 0;
  uint64_t read_told_ STRATA_GUARDED_BY(worker_.mutex()) = 0;
  std::optional<uint64_t> end_at_ STRATA_GUARDED_BY(worker_.mutex());
  std::optional<Reactor::TimePoint> give_up_at_
      STRATA_GUARDED_BY(worker_.mutex());  // what was sent and has not come
};

}  // namespace strata::wire
