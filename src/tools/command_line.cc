#include "tools/command_line.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <charconv>
#include <deque>
#include <sstream>
#include <string_view>
#include <utility>

#include "core/edit_distance.h"
#include "strata/core/error.h"

namespace strata::tools {
namespace {

// How the help names an option in two columns.
constexpr size_t kHelpColumn = 23;

// The usage first, where CLI11 begins with the description.
class HelpFormatter final : public CLI::Formatter {
 public:
  explicit HelpFormatter(CommandHelp help) : help_(std::move(help)) { column_width(kHelpColumn); }

  std::string make_help(const CLI::App* app, std::string, CLI::AppFormatMode mode) const override {
    return str_cat("usage: ", help_.usage, "\n\n", help_.description, make_groups(app, mode),
                   help_.examples.empty() ? "" : "\n", help_.examples,
                   help_.examples.empty() ? "" : "\n");
  }

 private:
  CommandHelp help_;
};

template <typename T>
bool parse(const std::string& text, T& number) {
  const char* const end = text.data() + text.size();
  const auto [stopped, error] = std::from_chars(text.data(), end, number);
  return error == std::errc() && stopped == end;
}

// As messages call an option: by its short name, where it has one.
std::string called(const CLI::Option& option) {
  const auto& names = option.get_snames();
  return names.empty() ? option.get_name() : "-" + names.front();
}

std::string name_of(const std::string& word) { return word.substr(0, word.find('=')); }

bool looks_like_option(const std::string& word) { return word.size() > 1 && word[0] == '-'; }

}  // namespace

struct CommandLine::Option {
  CLI::Option* option;
  std::function<void(const std::string& name, const std::string& value)> take;
};

struct CommandLine::Parser {
  CLI::App app;
  std::deque<Option> options;

  Option& add(CLI::Option* option) { return options.emplace_back(Option{option, {}}); }
  Option& add(const std::string& names, const std::string& shown, const std::string& help) {
    CLI::Option* const option = app.add_option(names, CLI::callback_t(), help);
    // Every value is kept, one for each time that the option is given.
    option->multi_option_policy(CLI::MultiOptionPolicy::TakeAll)->option_text(shown);
    return add(option);
  }
  template <typename T>
  void add_number(const std::string& command, const std::string& names, const std::string& shown,
                  const std::string& help, T& to, T least) {
    add(names, shown, help).take = [command, &to, least](const auto& name, const auto& value) {
      T number = 0;
      STRATA_CHECK(parse(value, number) && number >= least, kInvalidArgument, "[", command,
                   "] got ", name, " ", value, "; expected a number from ", least, " up");
      to = number;
    };
  }
};

CommandLine::CommandLine(std::string command, CommandHelp help, Operands operands)
    : command_(std::move(command)), parser_(std::make_unique<Parser>()) {
  CLI::App& app = parser_->app;
  app.set_help_flag("-h,--help", "prints this");
  app.formatter(std::make_shared<HelpFormatter>(std::move(help)));
  // CLI11's own positional arguments split "[a,b]" into two.
  if (operands == Operands::kProgram) {
    app.prefix_command();
  } else {
    app.allow_extras();
  }
}

CommandLine::~CommandLine() = default;

void CommandLine::flag(const std::string& names, const std::string& help, bool& to, bool meaning) {
  CLI::Option* const flag = parser_->app.add_flag(names, help)->disable_flag_override();
  parser_->add(flag).take = [&to, meaning](const auto&, const auto&) { to = meaning; };
}

void CommandLine::option(const std::string& names, const std::string& shown,
                         const std::string& help,
                         std::function<void(const std::string& value)> take) {
  parser_->add(names, shown, help).take =
      [take = std::move(take)](const auto&, const std::string& value) { take(value); };
}

void CommandLine::text(const std::string& names, const std::string& shown, const std::string& help,
                       std::string& to) {
  option(names, shown, help, [&to](const std::string& value) { to = value; });
}

void CommandLine::list(const std::string& names, const std::string& shown, const std::string& help,
                       std::vector<std::string>& to) {
  option(names, shown, help, [&to](const std::string& value) {
    to.clear();
    std::istringstream in(value);
    for (std::string part; std::getline(in, part, ',');) to.push_back(part);
  });
}

void CommandLine::number(const std::string& names, const std::string& shown,
                         const std::string& help, int& to, int least) {
  parser_->add_number(command_, names, shown, help, to, least);
}

void CommandLine::number(const std::string& names, const std::string& shown,
                         const std::string& help, int64_t& to, int64_t least) {
  parser_->add_number(command_, names, shown, help, to, least);
}

void CommandLine::seconds(const std::string& names, const std::string& shown,
                          const std::string& help, std::chrono::duration<double>& to) {
  parser_->add(names, shown, help).take = [command = command_, &to](const auto& name,
                                                                    const std::string& value) {
    constexpr double kMost = 1e9;
    double number = 0;
    STRATA_CHECK(parse(value, number) && number >= 0 && number <= kMost, kInvalidArgument, "[",
                 command, "] got ", name, " ", value, "; expected seconds, 0 or more");
    to = std::chrono::duration<double>(number);
  };
}

void CommandLine::yes_or_no(const std::string& names, const std::string& help, bool& to) {
  parser_->add(names, "yes|no", help).take = [command = command_, &to](const auto& name,
                                                                       const std::string& value) {
    STRATA_CHECK(value == "yes" || value == "no", kInvalidArgument, "[", command, "] got ", name,
                 " ", value, "; expected yes or no");
    to = value == "yes";
  };
}

bool CommandLine::read(std::vector<std::string> words) {
  CLI::App& app = parser_->app;
  try {
    app.parse(std::vector<std::string>(words.rbegin(), words.rend()));  // as CLI11 wants them
  } catch (const CLI::CallForHelp&) {
    return false;
  } catch (const CLI::ArgumentMismatch&) {
    refuse_value(words);
  } catch (const CLI::ParseError& error) {
    throw Error(ErrorCode::kInvalidArgument,
                str_cat("[", command_, "] ", error.what(), "; see ", command_, " --help"));
  }
  set_operands(app.remaining());
  for (const Option& each : parser_->options) {
    for (const std::string& value : each.option->results()) each.take(called(*each.option), value);
  }
  return true;
}

std::string CommandLine::help() const { return parser_->app.help(); }

// @param remaining  What CLI11 knows no option for, `--` among it.
void CommandLine::set_operands(std::vector<std::string> remaining) {
  operands_.clear();
  const bool program = parser_->app.get_prefix_command();
  bool options_end = false;
  for (std::string& word : remaining) {
    if (!options_end && word == "--") {
      options_end = true;
      continue;
    }
    if (!options_end && looks_like_option(word)) refuse_option(word);
    operands_.push_back(std::move(word));
    options_end = options_end || program;
  }
}

void CommandLine::refuse_option(const std::string& word) const {
  const std::string name = name_of(word);
  std::string nearest;
  size_t least = (name.size() - std::min(name.find_first_not_of('-'), name.size()) + 1) / 3;
  for (const CLI::Option* option : parser_->app.get_options()) {
    for (const std::string& known : option->get_lnames()) {
      const size_t distance = strata::detail::edit_distance(name, "--" + known);
      if (distance > least || (distance == least && !nearest.empty())) continue;
      least = distance;
      nearest = "--" + known;
    }
  }
  throw Error(ErrorCode::kInvalidArgument,
              str_cat("[", command_, "] got ", name, "; expected an option of ", command_,
                      " --help", nearest.empty() ? "" : "; did you mean " + nearest + "?"));
}

// An option at the end without its value, or a flag with one.
void CommandLine::refuse_value(const std::vector<std::string>& words) const {
  for (const std::string& word : words) {
    const CLI::Option* const option = parser_->app.get_option_no_throw(name_of(word));
    STRATA_CHECK(option == nullptr || option->get_items_expected_max() > 0 || name_of(word) == word,
                 kInvalidArgument, "[", command_, "] got ", word, "; expected ", name_of(word),
                 " without a value");
  }
  throw Error(ErrorCode::kInvalidArgument, str_cat("[", command_, "] got ", words.back(),
                                                   " without a value; see ", command_, " --help"));
}

}  // namespace strata::tools
