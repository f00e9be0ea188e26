#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/mutex.h"
#include "core/object_store/http.h"
#include "core/object_store/settings.h"

namespace strata::object_store {

/// "s3://bucket/a/b".
struct ObjectPath {
  std::string whole;  ///< For messages.
  std::string bucket;
  std::string key;  ///< "a/b"; empty: the bucket.

  /// Slashes at the end of a key, and empty parts of it, are left out.
  /// @throws Error  kInvalidArgument: no bucket.
  static ObjectPath parse(const std::string& path);
};

struct ObjectInfo {
  uint64_t size = 0;
  int64_t modified_ns = 0;  ///< Nanoseconds since 1970.
  std::string tag;          ///< Another one after each change.
};

/// The calls of an object store with Amazon S3's interface, which Google's has, too. Each is tried
/// again, with growing pauses, until `Settings::timeout`, where the server was not reached, stopped
/// in the middle or was busy.
///
/// Errors of every call name the path and the server's message: kNotFound (an object, an upload or
/// a bucket), kPermissionDenied, kUnauthenticated (unknown or wrong keys), kResourceExhausted
/// (quota), kUnavailable (after the last attempt). Threads: any, at once. Source: Amazon S3 API
/// Reference, 2006-03-01.
class Store {
 public:
  explicit Store(Settings settings) : settings_(std::move(settings)), region_(settings_.region) {}

  /// @return nullopt: there is no such object. @throws  Also if there is no such bucket.
  std::optional<ObjectInfo> head(const ObjectPath& path) const;
  /// Reads up to out.size() bytes from `offset`, which is less than the object's size.
  /// @param tag  Of the object as it was; kUnavailable if it is another now.
  size_t get(const ObjectPath& path, const std::string& tag, uint64_t offset,
             std::span<std::byte> out) const;
  /// The object appears whole, or is what it was.
  void put(const ObjectPath& path, std::string_view bytes) const;
  /// Also if there is no such object.
  void remove(const ObjectPath& path) const;
  /// By the server.
  void copy(const ObjectPath& from, const ObjectPath& to) const;
  /// Names of what is in a folder, sorted: objects, and folders with a '/' at the end, at most
  /// `limit`. The name of the object that stands for the folder itself is empty.
  std::vector<std::string> list(const ObjectPath& folder, size_t limit = SIZE_MAX) const;

  /// An object in parts, each of 5 MiB at least but for the last; at most 10,000.
  std::string begin_upload(const ObjectPath& path) const;
  /// @param number  From 1 on. @return What `finish_upload` is to be given of it.
  std::string upload_part(const ObjectPath& path, const std::string& upload, int number,
                          std::string_view bytes) const;
  /// The object appears whole, or is what it was.
  void finish_upload(const ObjectPath& path, const std::string& upload,
                     const std::vector<std::string>& parts, uint64_t size) const;
  void abort_upload(const ObjectPath& path, const std::string& upload) const;

 private:
  struct Call {
    const ObjectPath& path;
    std::string method;
    std::string query = {};
    std::vector<std::pair<std::string, std::string>> headers = {};
    std::string_view body = {};
    std::span<std::byte> into = {};
    std::vector<int> expected = {200};  ///< Statuses that the caller looks at itself.
  };

  HttpResponse send(const Call& call) const;
  HttpRequest request_of(const Call& call) const;
  /// Whether a refusal names another region, which counts from then on.
  bool learn_region(const HttpResponse& response) const;
  /// How a header of the interface is called: "x-amz-copy-source".
  std::string header(std::string_view name) const;
  std::string region() const;

  const Settings settings_;
  mutable Mutex mutex_;
  mutable std::string region_ STRATA_GUARDED_BY(mutex_);
};

}  // namespace strata::object_store
