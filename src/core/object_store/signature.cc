#include "core/object_store/signature.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <map>
#include <vector>

#include "core/hmac_sha256.h"
#include "core/sha256.h"
#include "strata/core/error.h"

namespace strata::object_store {
namespace {

constexpr std::string_view kService = "s3";
constexpr std::string_view kDigits = "0123456789abcdef";         // of digests
constexpr std::string_view kCapitalDigits = "0123456789ABCDEF";  // of URLs

std::string formatted(const char* format, std::time_t time) {
  std::tm parts{};
  ::gmtime_r(&time, &parts);
  std::array<char, 32> text{};
  return {text.data(), std::strftime(text.data(), text.size(), format, &parts)};
}

std::string hex(std::string_view bytes) {
  std::string text;
  for (const char byte : bytes) {
    const auto value = static_cast<unsigned char>(byte);
    text += kDigits[value >> 4];
    text += kDigits[value & 15];
  }
  return text;
}

std::string sha256_of(std::string_view bytes) {
  Sha256 hash;
  hash.update(bytes.data(), bytes.size());
  return hash.hex_digest();
}

struct UrlParts {
  std::string host, path, query;
};

UrlParts parts_of(const std::string& url) {
  const size_t host = url.find("://") + 3;
  const size_t path = std::min(url.find('/', host), url.size());
  const size_t query = std::min(url.find('?', path), url.size());
  return {.host = url.substr(host, path - host),
          .path = path == query ? "/" : url.substr(path, query - path),
          .query = query == url.size() ? "" : url.substr(query + 1)};
}

/// name=value, sorted; a name alone gets its '='.
std::string canonical_query(const std::string& query) {
  std::vector<std::string> all;
  for (size_t begin = 0; begin < query.size();) {
    const size_t end = std::min(query.find('&', begin), query.size());
    std::string each = query.substr(begin, end - begin);
    if (each.find('=') == each.npos) each += '=';
    all.push_back(std::move(each));
    begin = end + 1;
  }
  std::ranges::sort(all);
  std::string text;
  for (const std::string& each : all) text += str_cat(text.empty() ? "" : "&", each);
  return text;
}

}  // namespace

std::string uri_encoded(std::string_view text, bool keep_slashes) {
  std::string encoded;
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    const bool plain = (byte < 128 && std::isalnum(byte) != 0) || c == '-' || c == '.' ||
                       c == '_' || c == '~' || (keep_slashes && c == '/');
    if (plain) {
      encoded += c;
    } else {
      encoded += str_cat('%', kCapitalDigits[byte >> 4], kCapitalDigits[byte & 15]);
    }
  }
  return encoded;
}

void sign(HttpRequest& request, const AccessKey& key, std::string_view region, std::time_t now) {
  const UrlParts url = parts_of(request.url);
  const std::string time = formatted("%Y%m%dT%H%M%SZ", now);
  const std::string day = time.substr(0, 8);
  const std::string content = sha256_of(request.body);
  request.headers.emplace_back("x-amz-date", time);
  request.headers.emplace_back("x-amz-content-sha256", content);
  if (!key.session_token.empty()) {
    request.headers.emplace_back("x-amz-security-token", key.session_token);
  }

  std::map<std::string, std::string> to_sign = {{"host", url.host}};
  for (const auto& [name, value] : request.headers) {
    if (name.starts_with("x-amz-")) to_sign[name] = value;
  }
  std::string lines, names;
  for (const auto& [name, value] : to_sign) {
    lines += str_cat(name, ':', value, '\n');
    names += str_cat(names.empty() ? "" : ";", name);
  }
  const std::string canonical =
      str_cat(request.method, '\n', url.path, '\n', canonical_query(url.query), '\n', lines, '\n',
              names, '\n', content);
  const std::string scope = str_cat(day, '/', region, '/', kService, "/aws4_request");
  const std::string text =
      str_cat("AWS4-HMAC-SHA256\n", time, '\n', scope, '\n', sha256_of(canonical));

  using strata::detail::hmac_sha256;
  std::string secret = hmac_sha256("AWS4" + key.secret, day);
  secret = hmac_sha256(secret, region);
  secret = hmac_sha256(secret, kService);
  secret = hmac_sha256(secret, "aws4_request");
  request.headers.emplace_back(
      "Authorization",
      str_cat("AWS4-HMAC-SHA256 Credential=", key.id, '/', scope, ",SignedHeaders=", names,
              ",Signature=", hex(hmac_sha256(secret, text))));
}

}  // namespace strata::object_store
