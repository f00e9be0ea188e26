#include "wire/ucx/ucx_worker.h"

#include <sys/random.h>
#include <ucs/config/global_opts.h>
#include <ucs/debug/debug.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstring>
#include <utility>

namespace strata::wire {
namespace {

constexpr uint64_t kEvents = uint64_t{1} << 62;  // the worker's own descriptor, at the reactor
constexpr unsigned kBytes = 1;                   // active messages
constexpr unsigned kTaken = 2;
constexpr int kRounds = 64;  // of progress before the sockets are looked at

// As it is loaded UCX takes the signals of crashes, and it prints to stdout. Both are the
// program's.
const bool quiet = [] {
  for (const int signal : {SIGILL, SIGSEGV, SIGBUS, SIGFPE}) ucs_debug_disable_signal(signal);
  ucs_global_opts_set_value("LOG_LEVEL", "fatal");
  return true;
}();

void check(ucs_status_t status, const char* what) {
  STRATA_CHECK(status == UCS_OK, kUnavailable, "[wire] UCX: ", what, ": ",
               ucs_status_string(status));
}

}  // namespace

UcxWorker::UcxWorker() {
  ucp_config_t* config = nullptr;
  check(ucp_config_read(nullptr, nullptr, &config), "configuration");
  // No transport within a host: those cannot detect a lost peer.
  (void)ucp_config_modify(config, "TLS", "^sm,self,cma,knem,xpmem");
  // Without copies a send is over when its bytes are with the system or the device. (A copy may
  // stay with UCX until the next progress, and a flush waits for the peer's.)
  (void)ucp_config_modify(config, "ZCOPY_THRESH", "0");
  ucp_params_t params = {};
  params.field_mask = UCP_PARAM_FIELD_FEATURES;
  params.features = UCP_FEATURE_AM | UCP_FEATURE_WAKEUP;
  const ucs_status_t status = ucp_init(&params, config, &context_);
  ucp_config_release(config);
  check(status, "no usable device");

  ucp_worker_params_t worker_params = {};
  worker_params.field_mask = UCP_WORKER_PARAM_FIELD_THREAD_MODE;
  worker_params.thread_mode = UCS_THREAD_MODE_SERIALIZED;
  check(ucp_worker_create(context_, &worker_params, &worker_), "worker");
  const std::pair<unsigned, ucp_am_recv_callback_t> handlers[] = {{kBytes, on_bytes},
                                                                  {kTaken, on_taken}};
  for (const auto& [id, callback] : handlers) {
    ucp_am_handler_param_t handler = {};
    handler.field_mask = UCP_AM_HANDLER_PARAM_FIELD_ID | UCP_AM_HANDLER_PARAM_FIELD_FLAGS |
                         UCP_AM_HANDLER_PARAM_FIELD_CB | UCP_AM_HANDLER_PARAM_FIELD_ARG;
    handler.id = id;
    handler.flags = id == kBytes ? UCP_AM_FLAG_PERSISTENT_DATA | UCP_AM_FLAG_WHOLE_MSG : 0;
    handler.cb = callback;
    handler.arg = this;
    check(ucp_worker_set_am_recv_handler(worker_, &handler), "handler");
  }
  ucp_address_t* address = nullptr;
  size_t size = 0;
  check(ucp_worker_get_address(worker_, &address, &size), "address");
  address_.assign(reinterpret_cast<const char*>(address), size);
  ucp_worker_release_address(worker_, address);
  int events = -1;
  check(ucp_worker_get_efd(worker_, &events), "events");
  epoll_.add(events, kEvents, true);
}

UcxWorker::~UcxWorker() {
  {
    // The last words of connections.
    const MutexLock lock(mutex_);
    const auto limit = std::chrono::steady_clock::now() + std::chrono::seconds(1);
    while (!closing_.empty() && std::chrono::steady_clock::now() < limit) progress();
  }
  if (worker_ != nullptr) ucp_worker_destroy(worker_);
  if (context_ != nullptr) ucp_cleanup(context_);
}

void UcxWorker::progress() {
  for (int i = 0; i < kRounds && ucp_worker_progress(worker_) != 0; ++i) {
  }
  if (!closing_.empty()) free_closed_endpoints();
}

void UcxWorker::free_closed_endpoints() {
  std::erase_if(closing_, [](ucs_status_ptr_t request) {
    if (ucp_request_check_status(request) == UCS_INPROGRESS) return false;
    ucp_request_free(request);
    return true;
  });
}

void UcxWorker::collect(std::vector<uint64_t>& ready) {
  if (!later_.empty()) {
    const auto now = std::chrono::steady_clock::now();
    std::erase_if(later_, [&](const auto& each) STRATA_REQUIRES(mutex_) {
      if (each.second > now) return false;
      announced_.push_back(each.first);
      return true;
    });
  }
  for (const uint64_t key : announced_) {
    if (std::ranges::none_of(ready, [&](uint64_t each) { return (each & ~kHungUp) == key; })) {
      ready.push_back(key);
    }
  }
  announced_.clear();
}

void UcxWorker::poll(std::vector<uint64_t>& ready, TimePoint until) {
  bool sleep = until != TimePoint::min();
  {
    const MutexLock lock(mutex_);
    progress();
    collect(ready);
    // Busy: something has happened since.
    while (sleep && ready.empty() && ucp_worker_arm(worker_) == UCS_ERR_BUSY) {
      progress();
      collect(ready);
    }
    sleep = sleep && ready.empty();
    asleep_ = sleep;
  }
  epoll_.poll(ready, sleep ? until : TimePoint::min());
  std::erase_if(ready, [](uint64_t key) { return (key & ~kHungUp) == kEvents; });
  if (!sleep) return;
  const MutexLock lock(mutex_);
  asleep_ = false;
  progress();
  collect(ready);
}

uint64_t UcxWorker::add(UcxReceiver& receiver) {
  uint64_t id = 0;
  do {
    STRATA_CHECK(::getrandom(&id, sizeof id, 0) == sizeof id, kInternal,
                 "[wire] UCX: no random number");
  } while (id == 0 || receivers_.contains(id));
  receivers_[id] = &receiver;
  return id;
}

void UcxWorker::remove(uint64_t id) { receivers_.erase(id); }

Status UcxWorker::connect(std::string_view address, UcxReceiver& receiver, ucp_ep_h& endpoint) {
  ucp_ep_params_t params = {};
  params.field_mask = UCP_EP_PARAM_FIELD_REMOTE_ADDRESS | UCP_EP_PARAM_FIELD_ERR_HANDLING_MODE |
                      UCP_EP_PARAM_FIELD_ERR_HANDLER;
  params.address = reinterpret_cast<const ucp_address_t*>(address.data());
  params.err_mode = UCP_ERR_HANDLING_MODE_PEER;
  params.err_handler.cb = on_error;
  params.err_handler.arg = this;
  const ucs_status_t status = ucp_ep_create(worker_, &params, &endpoint);
  if (status != UCS_OK) {
    return {ErrorCode::kUnavailable, str_cat("no endpoint of UCX: ", ucs_status_string(status))};
  }
  endpoints_[endpoint] = &receiver;
  return {};
}

void UcxWorker::close(ucp_ep_h endpoint) {
  endpoints_.erase(endpoint);
  ucp_request_param_t param = {};
  param.op_attr_mask = UCP_OP_ATTR_FIELD_FLAGS;
  param.flags = UCP_EP_CLOSE_FLAG_FORCE;
  const ucs_status_ptr_t request = ucp_ep_close_nbx(endpoint, &param);
  if (UCS_PTR_IS_PTR(request)) closing_.push_back(request);
}

Status UcxWorker::send(ucp_ep_h endpoint, uint64_t own, uint64_t id, uint64_t offset,
                       std::span<const iovec> parts) {
  std::unique_ptr<Chunk> chunk;
  if (spare_.empty()) {
    chunk.reset(new Chunk);  // not cleared
  } else {
    chunk = std::move(spare_.back());
    spare_.pop_back();
  }
  chunk->worker = this;
  chunk->own = own;
  chunk->header = {.id = id, .offset = offset};
  chunk->size = 0;
  for (const iovec& part : parts) {
    std::memcpy(chunk->bytes + chunk->size, part.iov_base, part.iov_len);
    chunk->size += part.iov_len;
  }
  ucp_request_param_t param = {};
  param.op_attr_mask =
      UCP_OP_ATTR_FIELD_FLAGS | UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA;
  param.flags = UCP_AM_SEND_FLAG_EAGER;
  param.cb.send = on_sent;
  param.user_data = chunk.get();
  const ucs_status_ptr_t request =
      ucp_am_send_nbx(endpoint, chunk->size == 0 ? kTaken : kBytes, &chunk->header,
                      sizeof chunk->header, chunk->bytes, chunk->size, &param);
  Chunk* const sent_chunk = chunk.release();
  if (asleep_) epoll_.interrupt();  // the rest of it may need progress
  if (UCS_PTR_IS_PTR(request)) return {};
  sent(sent_chunk);
  if (!UCS_PTR_IS_ERR(request)) return {};
  return {ErrorCode::kUnavailable,
          str_cat("the peer has disconnected: ", ucs_status_string(UCS_PTR_STATUS(request)))};
}

void UcxWorker::sent(Chunk* chunk) {
  if (UcxReceiver* const whose = receiver(chunk->own)) whose->passed(chunk->size);
  spare_.emplace_back(chunk);
}

void UcxWorker::on_sent(void* request, ucs_status_t, void* chunk) {
  UcxWorker& worker = *static_cast<Chunk*>(chunk)->worker;
  worker.mutex_.assume_held();
  worker.sent(static_cast<Chunk*>(chunk));
  ucp_request_free(request);
}

UcxReceiver* UcxWorker::receiver(uint64_t id) const {
  const auto found = receivers_.find(id);
  return found == receivers_.end() ? nullptr : found->second;
}

UcxReceiver* UcxWorker::receiver(const void* header, size_t header_size) const {
  if (header_size != sizeof(Header)) return nullptr;
  Header read;
  std::memcpy(&read, header, sizeof read);
  return receiver(read.id);
}

ucs_status_t UcxWorker::on_bytes(void* self, const void* header, size_t header_size, void* bytes,
                                 size_t size, const ucp_am_recv_param_t* how) {
  auto& worker = *static_cast<UcxWorker*>(self);
  worker.mutex_.assume_held();
  UcxReceiver* const to = worker.receiver(header, header_size);
  // Strata's are never a rendezvous.
  if (to == nullptr || (how->recv_attr & UCP_AM_RECV_ATTR_FLAG_DATA) == 0) return UCS_OK;
  Header read;
  std::memcpy(&read, header, sizeof read);
  to->came(read.offset, static_cast<std::byte*>(bytes), size);
  return UCS_INPROGRESS;
}

ucs_status_t UcxWorker::on_taken(void* self, const void* header, size_t header_size, void*, size_t,
                                 const ucp_am_recv_param_t*) {
  auto& worker = *static_cast<UcxWorker*>(self);
  worker.mutex_.assume_held();
  if (UcxReceiver* const to = worker.receiver(header, header_size)) {
    Header read;
    std::memcpy(&read, header, sizeof read);
    to->taken(read.offset);
  }
  return UCS_OK;
}

void UcxWorker::on_error(void* self, ucp_ep_h endpoint, ucs_status_t status) {
  auto& worker = *static_cast<UcxWorker*>(self);
  worker.mutex_.assume_held();
  const auto found = worker.endpoints_.find(endpoint);
  if (found == worker.endpoints_.end()) return;
  found->second->endpoint_failed(
      {ErrorCode::kUnavailable, str_cat("the peer has disconnected: ", ucs_status_string(status))});
}

}  // namespace strata::wire
