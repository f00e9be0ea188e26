#include "core/object_store/curl_library.h"

#include <dlfcn.h>

#include <string>

#include "strata/core/error.h"

namespace strata::object_store {
namespace {

constexpr const char* kName = "libcurl.so.4";

template <typename Function>
void look_up(void* file, const char* name, Function& function) {
  function = reinterpret_cast<Function>(::dlsym(file, name));
  STRATA_CHECK(function != nullptr, kUnimplemented, "[core] ", kName, " has no ", name,
               "; install libcurl 7.80 or newer");
}

CurlLibrary open() {
  void* const file = ::dlopen(kName, RTLD_NOW | RTLD_LOCAL);
  STRATA_CHECK(file != nullptr, kUnimplemented, "[core] object stores and HTTP need ", kName,
               " (Debian: libcurl4): ", ::dlerror());
  decltype(&::curl_global_init) global_init = nullptr;
  look_up(file, "curl_global_init", global_init);
  global_init(CURL_GLOBAL_DEFAULT);
  CurlLibrary curl{};
  look_up(file, "curl_easy_init", curl.easy_init);
  look_up(file, "curl_easy_cleanup", curl.easy_cleanup);
  look_up(file, "curl_easy_reset", curl.easy_reset);
  look_up(file, "curl_easy_setopt", curl.easy_setopt);
  look_up(file, "curl_easy_perform", curl.easy_perform);
  look_up(file, "curl_easy_getinfo", curl.easy_getinfo);
  look_up(file, "curl_easy_strerror", curl.easy_strerror);
  look_up(file, "curl_slist_append", curl.slist_append);
  look_up(file, "curl_slist_free_all", curl.slist_free_all);
  return curl;
}

}  // namespace

const CurlLibrary& CurlLibrary::get() {
  static const CurlLibrary library = open();
  return library;
}

}  // namespace strata::object_store
