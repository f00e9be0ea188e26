#include "core/object_store/store.h"

#include <algorithm>
#include <charconv>
#include <chrono>
#include <ctime>
#include <random>
#include <set>
#include <thread>
#include <type_traits>
#include <utility>

#include "core/object_store/signature.h"
#include "core/object_store/xml.h"
#include "strata/core/error.h"
#include "strata/core/log.h"

namespace strata::object_store {
namespace {

using Clock = std::chrono::steady_clock;
constexpr std::chrono::milliseconds kFirstPause{100};
constexpr std::chrono::milliseconds kLongestPause{10'000};
constexpr size_t kNamesPerRequest = 1000;

bool is_worth_another_try(int status) {
  return status == 408 || status == 429 || status == 500 || status == 502 || status == 503 ||
         status == 504;
}

ErrorCode code_of(int status, const std::string& word) {
  if (word == "InvalidAccessKeyId" || word == "SignatureDoesNotMatch" || word == "ExpiredToken" ||
      word == "InvalidToken" || status == 401) {
    return ErrorCode::kUnauthenticated;
  }
  switch (status) {
    case 403:
      return ErrorCode::kPermissionDenied;
    case 404:
      return ErrorCode::kNotFound;
    case 409:
    case 412:
      return ErrorCode::kAborted;
    case 413:
    case 507:
      return ErrorCode::kResourceExhausted;
    default:
      return is_worth_another_try(status) ? ErrorCode::kUnavailable
                                          : ErrorCode::kFailedPrecondition;
  }
}

/// What helps, of the errors that users meet.
std::string advice(const Settings& settings, const std::string& word, int status) {
  const bool is_gs = settings.scheme == "gs";
  if (word == "NoSuchBucket") return "; make the bucket first, or correct its name";
  if (word == "InvalidAccessKeyId" || word == "SignatureDoesNotMatch") {
    return str_cat("; check ", is_gs ? "GS_ACCESS_KEY_ID and GS_SECRET_ACCESS_KEY"
                                     : "AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY and AWS_REGION");
  }
  if (word == "ExpiredToken" || status == 401) return "; renew the token";
  if (word == "RequestTimeTooSkewed") return "; set this machine's clock";
  if (status == 403) return "; the credentials that are set may not do this";
  return "";
}

template <typename Integer>
Integer number_in(const std::string& text) {
  Integer value{};
  std::from_chars(text.data(), text.data() + text.size(), value);
  return value;
}

/// "Fri, 27 Nov 2026 19:08:00 GMT"
int64_t nanoseconds_of(const std::string& date) {
  std::tm parts{};
  if (::strptime(date.c_str(), "%a, %d %b %Y %H:%M:%S", &parts) == nullptr) return 0;
  return static_cast<int64_t>(::timegm(&parts)) * 1'000'000'000;
}

std::string header_in(const HttpResponse& response, const std::string& name) {
  const auto found = response.headers.find(name);
  return found == response.headers.end() ? "" : found->second;
}

/// Names that were encoded on the way, so that XML cannot spoil them.
std::string url_decoded(std::string_view text) {
  std::string decoded;
  for (size_t i = 0; i < text.size(); ++i) {
    unsigned value = 0;
    if (text[i] == '%' && i + 2 < text.size() &&
        std::from_chars(text.data() + i + 1, text.data() + i + 3, value, 16).ec == std::errc()) {
      decoded += static_cast<char>(value);
      i += 2;
    } else {
      decoded += text[i] == '+' ? ' ' : text[i];
    }
  }
  return decoded;
}

/// The pauses between attempts: each about twice the one before.
class Pauses {
 public:
  explicit Pauses(std::chrono::milliseconds limit) : end_(Clock::now() + limit) {}
  /// @return false: the time is up.
  bool wait() {
    static thread_local std::minstd_rand random{std::random_device{}()};
    const auto pause =
        next_ / 2 + next_ * std::uniform_int_distribution<int>(0, 1000)(random) / 1000;
    if (Clock::now() + pause >= end_) return false;
    std::this_thread::sleep_for(pause);
    next_ = std::min(next_ * 2, kLongestPause);
    return true;
  }

 private:
  const Clock::time_point end_;
  std::chrono::milliseconds next_ = kFirstPause;
};

}  // namespace

ObjectPath ObjectPath::parse(const std::string& path) {
  ObjectPath parsed{.whole = path, .bucket = {}, .key = {}};
  size_t begin = path.find("://") + 3;
  std::vector<std::string> parts;
  while (begin <= path.size()) {
    const size_t end = std::min(path.find('/', begin), path.size());
    if (end > begin) parts.push_back(path.substr(begin, end - begin));
    begin = end + 1;
  }
  STRATA_CHECK(!parts.empty(), kInvalidArgument, "[core] got '", path,
               "'; expected a bucket and a key, for example ", path.substr(0, path.find("://")),
               "://my-bucket/run-1");
  parsed.bucket = parts[0];
  for (size_t i = 1; i < parts.size(); ++i) parsed.key += str_cat(i == 1 ? "" : "/", parts[i]);
  return parsed;
}

std::string Store::header(std::string_view name) const {
  // Google's servers do not mix their own headers with a signature of Amazon's kind.
  const bool is_google =
      settings_.scheme == "gs" && !std::holds_alternative<AccessKey>(settings_.credentials);
  return str_cat(is_google ? "x-goog-" : "x-amz-", name);
}

std::string Store::region() const {
  const MutexLock lock(mutex_);
  return region_;
}

HttpRequest Store::request_of(const Call& call) const {
  const ObjectPath& path = call.path;
  const std::string region = this->region();
  const bool is_amazon = settings_.endpoint.empty();
  // Amazon wants the bucket in the host's name, but for one with dots, which no certificate of the
  // host knows.
  const bool in_host = is_amazon && path.bucket.find('.') == std::string::npos;
  const std::string base = is_amazon ? str_cat("https://", in_host ? path.bucket + "." : "", "s3.",
                                               region, ".amazonaws.com")
                                     : settings_.endpoint;
  HttpRequest request{.method = call.method,
                      .url = str_cat(base, '/', in_host ? "" : uri_encoded(path.bucket) + "/",
                                     uri_encoded(path.key, /*keep_slashes=*/true),
                                     call.query.empty() ? "" : "?", call.query),
                      .headers = call.headers,
                      .body = call.body,
                      .into = call.into};
  if (const auto* key = std::get_if<AccessKey>(&settings_.credentials)) {
    sign(request, *key, region, std::time(nullptr));
  } else if (const auto* token = std::get_if<Token>(&settings_.credentials)) {
    request.headers.emplace_back("Authorization", "Bearer " + (*token)());
  }
  return request;
}

bool Store::learn_region(const HttpResponse& response) const {
  if (response.status != 301 && response.status != 307 && response.status != 400) return false;
  std::string named = header_in(response, "x-amz-bucket-region");
  if (named.empty()) named = xml_text(response.body, "Region");
  const MutexLock lock(mutex_);
  if (named.empty() || named == region_) return false;
  region_ = named;
  return true;
}

HttpResponse Store::send(const Call& call) const {
  Pauses pauses(settings_.timeout);
  bool may_learn = true;
  while (true) {
    std::string problem;
    ErrorCode code = ErrorCode::kUnavailable;
    bool again = true;
    try {
      HttpResponse response = send_http(request_of(call), settings_.limits);
      if (std::ranges::find(call.expected, response.status) != call.expected.end()) return response;
      if (std::exchange(may_learn, false) && learn_region(response)) continue;
      const std::string word = xml_text(response.body, "Code");
      const std::string message = xml_text(response.body, "Message");
      code = code_of(response.status, word);
      again = is_worth_another_try(response.status) || word == "RequestTimeout";
      problem =
          str_cat("the server says ", response.status, word.empty() ? "" : " ", word,
                  message.empty() ? "" : ": ", message, advice(settings_, word, response.status));
    } catch (const Error& error) {
      if (error.code() != ErrorCode::kUnavailable) throw;
      problem = error.what();
    }
    if (!again || !pauses.wait()) {
      throw Error(
          code,
          str_cat("[core] ", call.method, ' ', call.path.whole, ": ", problem,
                  again ? str_cat("; tried for ", settings_.timeout.count() / 1000.0, " s") : ""));
    }
    STRATA_VLOG(1) << "[core] " << call.method << ' ' << call.path.whole
                   << " once more: " << problem;
  }
}

std::optional<ObjectInfo> Store::head(const ObjectPath& path) const {
  const HttpResponse response = send({.path = path, .method = "HEAD", .expected = {200, 404}});
  if (response.status == 404) return std::nullopt;
  return ObjectInfo{.size = number_in<uint64_t>(header_in(response, "content-length")),
                    .modified_ns = nanoseconds_of(header_in(response, "last-modified")),
                    .tag = header_in(response, "etag")};
}

size_t Store::get(const ObjectPath& path, const std::string& tag, uint64_t offset,
                  std::span<std::byte> out) const {
  if (out.empty()) return 0;
  Call call{.path = path, .method = "GET", .into = out, .expected = {206, 412}};
  call.headers.emplace_back("Range", str_cat("bytes=", offset, '-', offset + out.size() - 1));
  if (!tag.empty()) call.headers.emplace_back("If-Match", tag);
  const HttpResponse response = send(call);
  STRATA_CHECK(response.status == 206, kUnavailable, "[core] read: ", path.whole,
               ": was replaced while it was read; open it again");
  return response.received;
}

void Store::put(const ObjectPath& path, std::string_view bytes) const {
  send({.path = path, .method = "PUT", .body = bytes});
}

void Store::remove(const ObjectPath& path) const {
  send({.path = path, .method = "DELETE", .expected = {200, 204, 404}});
}

void Store::copy(const ObjectPath& from, const ObjectPath& to) const {
  Call call{.path = to, .method = "PUT"};
  call.headers.emplace_back(
      header("copy-source"),
      str_cat('/', from.bucket, '/', uri_encoded(from.key, /*keep_slashes=*/true)));
  const HttpResponse response = send(call);
  // An error may come after the first bytes of a response that began well.
  STRATA_CHECK(xml_element(response.body, "Error").empty(), kUnavailable,
               "[core] copy: ", from.whole, " to ", to.whole, ": the server says ",
               xml_text(response.body, "Message"));
}

std::vector<std::string> Store::list(const ObjectPath& folder, size_t limit) const {
  const ObjectPath bucket{.whole = folder.whole, .bucket = folder.bucket, .key = ""};
  const std::string prefix = folder.key.empty() ? "" : folder.key + "/";
  std::set<std::string> names;
  std::string token;
  do {
    std::string query = str_cat("list-type=2&delimiter=%2F&encoding-type=url&max-keys=",
                                std::min(limit, kNamesPerRequest), "&prefix=", uri_encoded(prefix));
    if (!token.empty()) query += str_cat("&continuation-token=", uri_encoded(token));
    const HttpResponse response = send({.path = bucket, .method = "GET", .query = query});
    const auto add = [&](std::string_view element, const char* key) {
      const std::string name = url_decoded(xml_text(element, key));
      if (name.starts_with(prefix)) names.insert(name.substr(prefix.size()));
    };
    for (const std::string_view each : xml_elements(response.body, "Contents")) add(each, "Key");
    for (const std::string_view each : xml_elements(response.body, "CommonPrefixes"))
      add(each, "Prefix");
    token = xml_text(response.body, "IsTruncated") == "true"
                ? xml_text(response.body, "NextContinuationToken")
                : "";
  } while (!token.empty() && names.size() < limit);
  return {names.begin(), names.end()};
}

std::string Store::begin_upload(const ObjectPath& path) const {
  const HttpResponse response = send({.path = path, .method = "POST", .query = "uploads="});
  std::string upload = xml_text(response.body, "UploadId");
  STRATA_CHECK(!upload.empty(), kUnavailable, "[core] write: ", path.whole,
               ": the server began an upload without a name for it");
  return upload;
}

std::string Store::upload_part(const ObjectPath& path, const std::string& upload, int number,
                               std::string_view bytes) const {
  const HttpResponse response =
      send({.path = path,
            .method = "PUT",
            .query = str_cat("partNumber=", number, "&uploadId=", uri_encoded(upload)),
            .body = bytes});
  return header_in(response, "etag");
}

void Store::finish_upload(const ObjectPath& path, const std::string& upload,
                          const std::vector<std::string>& parts, uint64_t size) const {
  std::string body = "<CompleteMultipartUpload>";
  for (size_t i = 0; i < parts.size(); ++i) {
    body += str_cat("<Part><PartNumber>", i + 1, "</PartNumber><ETag>", parts[i], "</ETag></Part>");
  }
  body += "</CompleteMultipartUpload>";
  const Call call{.path = path,
                  .method = "POST",
                  .query = str_cat("uploadId=", uri_encoded(upload)),
                  .body = body,
                  .expected = {200, 404}};
  Pauses pauses(settings_.timeout);
  while (true) {
    const HttpResponse response = send(call);
    if (response.status == 200 && xml_element(response.body, "Error").empty()) return;
    // An attempt whose response was lost may have finished it; then it is known no longer.
    if (response.status == 404) {
      const auto info = head(path);
      if (info && info->size == size) return;
    }
    const std::string message = xml_text(response.body, "Message");
    STRATA_CHECK(response.status == 200 && pauses.wait(), kUnavailable,
                 "[core] write: ", path.whole,
                 ": the server did not put the parts together: ", message);
  }
}

void Store::abort_upload(const ObjectPath& path, const std::string& upload) const {
  send({.path = path,
        .method = "DELETE",
        .query = str_cat("uploadId=", uri_encoded(upload)),
        .expected = {200, 204, 404}});
}

}  // namespace strata::object_store
