#include "core/object_store/http.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <cstring>
#include <memory>

#include "core/mutex.h"
#include "core/object_store/curl_library.h"
#include "strata/core/error.h"

namespace strata::object_store {
namespace {

/// Of a response that is no file: a page of a listing, an error.
constexpr size_t kLargestText = size_t{16} << 20;

/// Handles that are not in use; each keeps its connections.
class Handles {
 public:
  CURL* take() {
    {
      const MutexLock lock(mutex_);
      if (!free_.empty()) {
        CURL* const handle = free_.back();
        free_.pop_back();
        return handle;
      }
    }
    CURL* const handle = CurlLibrary::get().easy_init();
    STRATA_CHECK(handle != nullptr, kResourceExhausted, "[core] libcurl has no memory");
    return handle;
  }
  void give(CURL* handle) {
    CurlLibrary::get().easy_reset(handle);
    const MutexLock lock(mutex_);
    free_.push_back(handle);
  }

 private:
  Mutex mutex_;
  std::vector<CURL*> free_ STRATA_GUARDED_BY(mutex_);
};

Handles& handles() {
  static Handles* const all = new Handles;  // outlives every file
  return *all;
}

class HandleInUse {
 public:
  HandleInUse() : handle_(handles().take()) {}
  HandleInUse(const HandleInUse&) = delete;
  HandleInUse& operator=(const HandleInUse&) = delete;
  ~HandleInUse() { handles().give(handle_); }
  CURL* get() const { return handle_; }

 private:
  CURL* handle_;
};

struct Transfer {
  const HttpRequest* request;
  HttpResponse response = {};
  size_t sent = 0;
  bool too_long = false;
};

std::string_view trimmed(std::string_view text) {
  while (!text.empty() && std::isspace(static_cast<unsigned char>(text.front())) != 0) {
    text.remove_prefix(1);
  }
  while (!text.empty() && std::isspace(static_cast<unsigned char>(text.back())) != 0) {
    text.remove_suffix(1);
  }
  return text;
}

size_t on_header(const char* data, size_t size, size_t count, void* user) {
  HttpResponse& response = static_cast<Transfer*>(user)->response;
  const std::string_view line(data, size * count);
  if (line.starts_with("HTTP/")) {  // of each response, such as "100 Continue"
    response.headers.clear();
    const size_t space = line.find(' ');
    response.status = space == line.npos ? 0 : std::atoi(line.data() + space + 1);
  } else if (const size_t colon = line.find(':'); colon != line.npos) {
    std::string name(line.substr(0, colon));
    std::ranges::transform(name, name.begin(), [](unsigned char c) { return std::tolower(c); });
    response.headers[name] = trimmed(line.substr(colon + 1));
  }
  return size * count;
}

size_t on_body(const char* data, size_t size, size_t count, void* user) {
  auto& transfer = *static_cast<Transfer*>(user);
  HttpResponse& response = transfer.response;
  const size_t bytes = size * count;
  const std::span<std::byte> into = transfer.request->into;
  const bool is_text = into.empty() || response.status / 100 != 2;
  if (bytes > (is_text ? kLargestText : into.size()) - response.received) {
    transfer.too_long = true;
    return 0;
  }
  if (is_text) {
    response.body.append(data, bytes);
  } else {
    std::memcpy(into.data() + response.received, data, bytes);
  }
  response.received += bytes;
  return bytes;
}

size_t on_send(char* to, size_t size, size_t count, void* user) {
  auto& transfer = *static_cast<Transfer*>(user);
  const std::string_view rest = transfer.request->body.substr(transfer.sent);
  const size_t bytes = std::min(rest.size(), size * count);
  std::memcpy(to, rest.data(), bytes);
  transfer.sent += bytes;
  return bytes;
}

int on_rewind(void* user, curl_off_t offset, int origin) {
  if (origin != SEEK_SET) return CURL_SEEKFUNC_CANTSEEK;
  static_cast<Transfer*>(user)->sent = static_cast<size_t>(offset);
  return CURL_SEEKFUNC_OK;
}

class HeaderList {
 public:
  explicit HeaderList(const CurlLibrary& curl) : curl_(curl) {}
  HeaderList(const HeaderList&) = delete;
  HeaderList& operator=(const HeaderList&) = delete;
  ~HeaderList() { curl_.slist_free_all(list_); }
  void add(const std::string& line) { list_ = curl_.slist_append(list_, line.c_str()); }
  curl_slist* get() const { return list_; }

 private:
  const CurlLibrary& curl_;
  curl_slist* list_ = nullptr;
};

}  // namespace

HttpResponse send_http(const HttpRequest& request, const HttpLimits& limits) {
  const CurlLibrary& curl = CurlLibrary::get();
  const HandleInUse handle;
  Transfer transfer{.request = &request};
  std::array<char, CURL_ERROR_SIZE> reason{};
  HeaderList headers(curl);
  for (const auto& [name, value] : request.headers) {
    // A header without a value has a semicolon for libcurl; with a colon it would be left out.
    headers.add(value.empty() ? name + ";" : str_cat(name, ": ", value));
  }
  headers.add("Expect:");  // no round trip for "100 Continue"

  const auto set = [&](CURLoption option, auto value) {
    curl.easy_setopt(handle.get(), option, value);
  };
  set(CURLOPT_URL, request.url.c_str());
  set(CURLOPT_NOSIGNAL, 1L);
  set(CURLOPT_ERRORBUFFER, reason.data());
  set(CURLOPT_PATH_AS_IS, 1L);  // as it was signed
  set(CURLOPT_CONNECTTIMEOUT_MS, static_cast<long>(limits.connect.count()));
  set(CURLOPT_TIMEOUT_MS, static_cast<long>(limits.total.count()));
  // libcurl counts the time of a stall in seconds.
  const auto stall = std::max<std::chrono::seconds>(
      std::chrono::seconds(1), std::chrono::ceil<std::chrono::seconds>(limits.stall));
  set(CURLOPT_LOW_SPEED_LIMIT, 1L);
  set(CURLOPT_LOW_SPEED_TIME, static_cast<long>(stall.count()));
  set(CURLOPT_HEADERFUNCTION, &on_header);
  set(CURLOPT_HEADERDATA, static_cast<void*>(&transfer));
  set(CURLOPT_WRITEFUNCTION, &on_body);
  set(CURLOPT_WRITEDATA, static_cast<void*>(&transfer));
  if (!limits.certificates.empty()) set(CURLOPT_CAINFO, limits.certificates.c_str());
  if (request.method == "HEAD") {
    set(CURLOPT_NOBODY, 1L);
  } else if (request.method == "PUT" || request.method == "POST") {
    set(CURLOPT_UPLOAD, 1L);
    set(CURLOPT_READFUNCTION, &on_send);
    set(CURLOPT_READDATA, static_cast<void*>(&transfer));
    set(CURLOPT_SEEKFUNCTION, &on_rewind);
    set(CURLOPT_SEEKDATA, static_cast<void*>(&transfer));
    set(CURLOPT_INFILESIZE_LARGE, static_cast<curl_off_t>(request.body.size()));
    set(CURLOPT_CUSTOMREQUEST, request.method.c_str());
  } else {
    set(CURLOPT_CUSTOMREQUEST, request.method.c_str());
  }
  set(CURLOPT_HTTPHEADER, headers.get());

  const CURLcode code = curl.easy_perform(handle.get());
  STRATA_CHECK(!transfer.too_long, kUnavailable, "[core] ", request.method, " ", request.url,
               ": the response is longer than expected, ",
               request.into.empty() ? kLargestText : request.into.size(), " bytes");
  STRATA_CHECK(code == CURLE_OK, kUnavailable, "[core] ", request.method, " ", request.url, ": ",
               reason[0] != 0 ? reason.data() : curl.easy_strerror(code));
  return std::move(transfer.response);
}

}  // namespace strata::object_store
