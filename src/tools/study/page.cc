#include "tools/study/page.h"

#include "simulate/chart.h"
#include "strata/core/str_cat.h"

namespace strata::tools {
namespace {

constexpr const char* kStyle =
    R"(body { font-family: sans-serif; font-size: 14px; max-width: 1240px; margin: 24px auto; padding: 0 16px; color: #222; }
table { border-collapse: collapse; margin: 12px 0; }
th, td { padding: 4px 10px; text-align: right; border-bottom: 1px solid #ddd; }
td { white-space: nowrap; }
th:first-child, td:first-child { text-align: left; }
tr.best td { font-weight: bold; }
p.of { color: #555; }
)";

}  // namespace

std::string html_page(const std::string& title, const std::string& body) {
  return str_cat("<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n<title>",
                 simulate::escaped_markup(title), "</title>\n<style>\n", kStyle,
                 "</style>\n</head>\n<body>\n<h1>", simulate::escaped_markup(title), "</h1>\n",
                 body, "</body>\n</html>\n");
}

}  // namespace strata::tools
