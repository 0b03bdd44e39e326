#include "tests/fake_apiserver/target.h"

#include <charconv>
#include <cstdlib>
#include <vector>

namespace trainyard::control {
namespace {

std::vector<std::string> Split(std::string_view text, char separator) {
  std::vector<std::string> parts;
  while (true) {
    const size_t end = text.find(separator);
    parts.emplace_back(text.substr(0, end));
    if (end == std::string_view::npos) return parts;
    text.remove_prefix(end + 1);
  }
}

std::string Unescape(std::string_view text) {
  std::string plain;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '%' && i + 2 < text.size()) {
      plain += static_cast<char>(std::strtol(std::string(text.substr(i + 1, 2)).c_str(), nullptr, 16));
      i += 2;
    } else {
      plain += text[i];
    }
  }
  return plain;
}

}  // namespace

std::string Target::Parameter(const std::string& key) const {
  const auto it = query.find(key);
  return it == query.end() ? "" : it->second;
}

int64_t Target::Number(const std::string& key) const { return NumberOf(Parameter(key)); }

int64_t NumberOf(const std::string& text) {
  int64_t number = 0;
  std::from_chars(text.data(), text.data() + text.size(), number);
  return number;
}

Target ParseTarget(const HttpRequest& request) {
  Target target;
  const size_t question = request.target.find('?');
  if (question != std::string::npos) {
    for (const std::string& pair : Split(std::string_view(request.target).substr(question + 1), '&')) {
      const size_t equals = pair.find('=');
      target.query[pair.substr(0, equals)] = equals == std::string::npos ? "" : Unescape(std::string_view(pair).substr(equals + 1));
    }
  }
  std::vector<std::string> parts =
      Split(std::string_view(request.target).substr(1, question == std::string::npos ? question : question - 1), '/');
  size_t next = 0;
  const auto take = [&] { return next < parts.size() ? parts[next++] : std::string(); };
  const std::string root = take();
  std::string group;
  if (root == "apis") group = take();
  if (root != "api" && root != "apis") return target;
  const std::string version = take();
  target.api_version = group.empty() ? version : group + "/" + version;
  target.plural = take();
  if (target.plural == "namespaces" && next + 1 < parts.size()) {
    target.ns = take();
    target.plural = take();
  }
  target.name = take();
  target.subresource = take();
  target.collection = group + "/" + target.plural;
  if (target.plural.empty()) return target;
  if (request.method == "GET") target.verb = !target.name.empty() ? "get" : target.query.contains("watch") ? "watch" : "list";
  if (request.method == "POST") target.verb = "create";
  if (request.method == "PUT") target.verb = "update";
  if (request.method == "PATCH") target.verb = "patch";
  if (request.method == "DELETE") target.verb = "delete";
  return target;
}

}  // namespace trainyard::control
