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

  void came(uint64_t offset, std::byte* bytes, size_t size) override;
  void taken(uint64_t bytes) override;
  void passed(size_t bytes) override;
  void endpoint_failed(const Status& why) override;

  // With the worker's mutex held:
  Result take(std::span<const iovec> parts);
  void look_at_tcp();
  void hear_address();
  bool flush_tcp();
  void fail(Status why);

  const std::unique_ptr<Stream> tcp_;
  UcxWorker& worker_;
  bool begun_ = false;
  bool told_hello_ = false;  // over the endpoint
  bool heard_hello_ = false;
  bool closed_ = false;
  bool ended_ = false;      // end() was called
  bool tcp_ended_ = false;  // by the peer
  uint64_t key_ = 0;
  uint64_t id_ = 0;
  uint64_t peers_id_ = 0;
  ucp_ep_h endpoint_ = nullptr;
  std::string to_tell_;  // over TCP
  std::string told_;     // and what came there
  std::optional<Status> failure_;
  std::optional<Status> endpoint_failure_;  // no sends; TCP has the cause

  uint64_t sent_ = 0;
  uint64_t flushed_bytes_ = 0;
  uint64_t taken_ = 0;  // by the peer

  std::deque<Piece> pieces_;
  std::map<uint64_t, Piece> ahead_;  // of an earlier one that is still to come
  uint64_t came_ = 0;
  uint64_t read_ = 0;
  uint64_t read_told_ = 0;
  std::optional<uint64_t> end_at_;
  std::optional<Reactor::TimePoint> give_up_at_;  // what was sent and has not come
};

}  // namespace strata::wire
