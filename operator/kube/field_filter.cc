#include "operator/kube/field_filter.h"

#include <fmt/format.h>

#include <array>

#include "operator/base/status_macros.h"

namespace trainyard::control {
namespace {

constexpr int kMaxDepth = 100;

// What a byte can mean outside of strings.
enum class Class : unsigned char { kOther, kOpen, kClose, kQuote };

constexpr std::array<Class, 256> MakeClasses() {
  std::array<Class, 256> classes{};
  classes['{'] = classes['['] = Class::kOpen;
  classes['}'] = classes[']'] = Class::kClose;
  classes['"'] = Class::kQuote;
  return classes;
}
constexpr std::array<Class, 256> kClasses = MakeClasses();

}  // namespace

// One pass over one text.
class FieldFilter::Scanner {
 public:
  Scanner(std::string_view text, const ItemHandler* on_item) : text_(text), on_item_(on_item) {}

  absl::Status Run(const Node& root, std::string& out) {
    SkipSpace();
    if (At() != '{') return Bad("expected an object");
    TY_RETURN_IF_ERROR(Object(root, out, 1));
    SkipSpace();
    return at_ == text_.size() ? absl::OkStatus() : Bad("text after the object");
  }

 private:
  absl::Status Bad(std::string_view problem) const {
    return absl::InvalidArgumentError(fmt::format("no JSON at byte {}: {}", at_, problem));
  }

  char At() const { return at_ < text_.size() ? text_[at_] : '\0'; }

  void SkipSpace() {
    while (at_ < text_.size() && (text_[at_] == ' ' || text_[at_] == '\n' || text_[at_] == '\t' || text_[at_] == '\r')) ++at_;
  }

  // From the opening quote to behind the closing one.
  absl::Status SkipString() {
    for (++at_; at_ < text_.size(); ++at_) {
      if (text_[at_] == '\\') {
        ++at_;
      } else if (text_[at_] == '"') {
        ++at_;
        return absl::OkStatus();
      }
    }
    at_ = text_.size();
    return Bad("a string without end");
  }

  absl::Status SkipValue() {
    SkipSpace();
    if (At() == '"') return SkipString();
    if (kClasses[static_cast<unsigned char>(At())] != Class::kOpen) {
      while (at_ < text_.size() && std::string_view(",]} \n\t\r").find(text_[at_]) == std::string_view::npos) ++at_;
      return absl::OkStatus();
    }
    int depth = 0;
    while (at_ < text_.size()) {
      switch (kClasses[static_cast<unsigned char>(text_[at_])]) {
        case Class::kOther:
          ++at_;
          continue;
        case Class::kQuote:
          TY_RETURN_IF_ERROR(SkipString());
          continue;
        case Class::kOpen:
          if (++depth > kMaxDepth) return Bad("nested too deeply");
          break;
        case Class::kClose:
          --depth;
          break;
      }
      ++at_;
      if (depth == 0) return absl::OkStatus();
    }
    return Bad("the text ends too early");
  }

  // Copies as it stands what holds nothing to be dropped.
  absl::Status Value(const Node* node, std::string& out, int depth) {
    SkipSpace();
    if (depth > kMaxDepth) return Bad("nested too deeply");
    if (node != nullptr && At() == '{') return Object(*node, out, depth);
    if (node != nullptr && At() == '[') return Array(*node, out, depth);
    const size_t begin = at_;
    TY_RETURN_IF_ERROR(SkipValue());
    out.append(text_, begin, at_ - begin);
    return absl::OkStatus();
  }

  absl::Status Object(const Node& node, std::string& out, int depth) {
    out += '{';
    ++at_;
    bool first = true;
    for (SkipSpace(); At() != '}'; SkipSpace()) {
      if (At() != '"') return Bad("expected a field's name");
      const size_t begin = at_;
      TY_RETURN_IF_ERROR(SkipString());
      const std::string_view quoted = text_.substr(begin, at_ - begin);
      const std::string_view name = quoted.substr(1, quoted.size() - 2);
      SkipSpace();
      if (At() != ':') return Bad("expected ':'");
      ++at_;
      const auto child = node.children.find(name);
      const Node* const next = child == node.children.end() ? nullptr : child->second.get();
      if (next != nullptr && next->drop) {
        TY_RETURN_IF_ERROR(SkipValue());
      } else {
        if (!first) out += ',';
        first = false;
        out += quoted;
        out += ':';
        SkipSpace();
        const bool items = depth == 1 && on_item_ != nullptr && name == "items" && At() == '[';
        TY_RETURN_IF_ERROR(items ? Items(next, out) : Value(next, out, depth + 1));
      }
      SkipSpace();
      if (At() != ',') break;
      ++at_;
      SkipSpace();
      if (At() == '}') return Bad("expected a field after ','");
    }
    if (At() != '}') return Bad("expected ',' or '}'");
    ++at_;
    out += '}';
    return absl::OkStatus();
  }

  // Calls `element` at each element of the array that begins here.
  template <typename Element>
  absl::Status Elements(const Element& element) {
    ++at_;
    for (SkipSpace(); At() != ']'; SkipSpace()) {
      TY_RETURN_IF_ERROR(element());
      SkipSpace();
      if (At() != ',') break;
      ++at_;
      SkipSpace();
      if (At() == ']') return Bad("expected an element after ','");
    }
    if (At() != ']') return Bad("expected ',' or ']'");
    ++at_;
    return absl::OkStatus();
  }

  absl::Status Array(const Node& node, std::string& out, int depth) {
    out += '[';
    bool first = true;
    TY_RETURN_IF_ERROR(Elements([&] {
      if (!first) out += ',';
      first = false;
      return Value(&node, out, depth + 1);
    }));
    out += ']';
    return absl::OkStatus();
  }

  absl::Status Items(const Node* node, std::string& out) {
    std::string item;
    TY_RETURN_IF_ERROR(Elements([&]() -> absl::Status {
      item.clear();
      TY_RETURN_IF_ERROR(Value(node, item, 3));
      return (*on_item_)(item);
    }));
    out += "[]";
    return absl::OkStatus();
  }

  const std::string_view text_;
  const ItemHandler* const on_item_;
  size_t at_ = 0;
};

FieldFilter::FieldFilter(const std::vector<std::string>& fields, std::string_view prefix) {
  const auto below = [prefix](std::string_view field) { return prefix.empty() ? std::string(field) : fmt::format("{}.{}", prefix, field); };
  Add(below("metadata.managedFields"));
  for (const std::string& field : fields) Add(below(field));
}

void FieldFilter::Add(std::string_view path) {
  Node* node = &root_;
  while (true) {
    const size_t dot = path.find('.');
    std::unique_ptr<Node>& child = node->children[std::string(path.substr(0, dot))];
    if (child == nullptr) child = std::make_unique<Node>();
    node = child.get();
    if (dot == std::string_view::npos) break;
    path.remove_prefix(dot + 1);
  }
  node->drop = true;
}

absl::Status FieldFilter::Apply(std::string_view text, std::string& out, const ItemHandler* on_item) const {
  return Scanner(text, on_item).Run(root_, out);
}

}  // namespace trainyard::control
