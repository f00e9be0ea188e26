#include "core/object_store/http.h"
#include "core/object_store/object_file_system.h"
#include "strata/core/error.h"

namespace strata::object_store {

const char* variable_of_process(const char*) { return nullptr; }

std::unique_ptr<const FileSystem> make_file_system(const std::string& scheme, const Environment&) {
  throw Error(ErrorCode::kUnimplemented,
              str_cat("[core] ", scheme,
                      "://: this strata was built without libcurl; install it (Debian: "
                      "libcurl4-openssl-dev) and build again"));
}

HttpResponse send_http(const HttpRequest& request, const HttpLimits&) {
  throw Error(ErrorCode::kUnimplemented,
              str_cat("[core] ", request.method, " ", request.url,
                      ": this strata was built without libcurl; install it (Debian: "
                      "libcurl4-openssl-dev) and build again"));
}

}  // namespace strata::object_store
