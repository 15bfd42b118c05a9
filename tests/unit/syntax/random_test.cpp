// Random expressions, built as trees without any parentheses: printed and read again they have to be the same trees.
#include <gtest/gtest.h>

#include <random>

#include "tests/support/soak.h"
#include "tests/unit/syntax/read.h"

namespace chainio::syntax::test {
namespace {

class Maker {
  public:
    explicit Maker(std::uint64_t seed) : random_(seed) {}

    ast::ExprPtr expr(int depth) {
        auto out = std::make_unique<ast::Expr>();
        switch (depth <= 0 ? below(6) : below(17)) {
            case 0: out->node = ast::IntLit{random_() >> below(64), ast::Unit::none, ""}; break;
            case 1: out->node = ast::StringLit{text()}; break;
            case 2: out->node = ast::BoolLit{below(2) == 1}; break;
            case 3: out->node = ast::BlockLit{}; break;
            case 4:
            case 5: out->node = ast::NameRef{name()}; break;
            case 6: out->node = call(name(), args(depth)); break;
            case 7: out->node = ast::Call{expr(depth - 1), name(), args(depth)}; break;
            case 8: out->node = ast::FieldAccess{expr(depth - 1), name()}; break;
            case 9: out->node = ast::Index{expr(depth - 1), expr(depth - 1)}; break;
            case 10: out->node = ast::Slice{expr(depth - 1), maybe(depth), maybe(depth)}; break;
            case 11: out->node = ast::Unary{static_cast<ast::UnaryOp>(below(3)), expr(depth - 1)}; break;
            case 12:
            case 13:
                out->node = ast::Binary{static_cast<ast::BinaryOp>(below(18)), {}, expr(depth - 1), expr(depth - 1)};
                break;
            case 14: out->node = ast::Cond{expr(depth - 1), expr(depth - 1), expr(depth - 1)}; break;
            case 15: out->node = ast::InSet{expr(depth - 1), list(depth)}; break;
            default: out->node = ast::Cast{expr(depth - 1), name()}; break;
        }
        return out;
    }
    std::vector<ast::ExprPtr> list(int depth) {
        std::vector<ast::ExprPtr> out;
        for (std::uint64_t i = 0; i <= below(3); ++i) out.push_back(expr(depth - 1));
        return out;
    }
    // A call of `max` with one plain argument is a bound in the tree of what was read; the trees made here do not hold
    // one.
    static ast::Call call(ast::Name callee, std::vector<ast::Arg> args) {
        const bool bound = callee.text == "max" && args.size() == 1 && args[0].value && !args[0].is_max &&
                           !args[0].by && !args[0].lambda;
        return {nullptr, bound ? ast::Name{"min", {}} : std::move(callee), std::move(args)};
    }
    ast::Name name() {
        // Words of the language that are names where nothing else is meant, beside ordinary ones.
        static constexpr const char* names[] = {"a",     "b1",    "key",  "max", "min",   "next", "step", "state",
                                                "match", "bytes", "file", "tag", "reply", "skip", "mark", "with"};
        return {names[below(std::size(names))], {}};
    }
    std::uint64_t below(std::uint64_t n) { return random_() % n; }

  private:
    ast::ExprPtr maybe(int depth) { return below(2) == 1 ? expr(depth - 1) : nullptr; }
    std::string text() {
        std::string out;
        for (std::uint64_t i = 0; i < below(5); ++i) out += static_cast<char>(below(256));
        return out;
    }
    std::vector<ast::Arg> args(int depth) {
        std::vector<ast::Arg> out;
        for (std::uint64_t i = 0; i < below(4); ++i) {
            ast::Arg arg;
            const std::uint64_t kind = below(6);
            if (kind != 0) arg.value = expr(depth - 1);
            arg.is_max = kind == 1;
            if (kind == 0 || kind == 2) arg.lambda = ast::Lambda{name(), expr(depth - 1)};
            if (kind == 3) arg.by = expr(depth - 1);
            out.push_back(std::move(arg));
        }
        return out;
    }

    std::mt19937_64 random_;
};

TEST(Random, ExpressionsSurviveEveryPrinter) {
    const std::uint64_t seed = tests::soak_seed(), count = tests::soak_count(3000, 300'000);
    Maker maker(seed);
    for (std::uint64_t i = 0; i < count; ++i) {
        ast::File file;
        ast::Item item;
        item.node = ast::Const{{maker.name(), maker.expr(static_cast<int>(maker.below(5)))}};
        file.items.push_back(std::move(item));
        const std::string made = dump_ast(file), text = print_chain(file);
        const auto chain = read_chain(text);
        ASSERT_EQ(chain->errors(), "") << "seed " << seed << "\n" << chain->rendered();
        chain->file->items.at(0).span = {};
        ASSERT_EQ(dump_ast(*chain->file), made) << "seed " << seed << "\n" << text;
        const auto yaml = read_yaml(print_yaml(file));
        ASSERT_EQ(yaml->errors(), "") << "seed " << seed << "\n" << yaml->rendered();
        ASSERT_EQ(print_chain(*yaml->file), text) << "seed " << seed;
    }
}

TEST(Random, StatementsSurviveEveryPrinter) {
    const std::uint64_t seed = tests::soak_seed() + 1, count = tests::soak_count(2000, 200'000);
    Maker maker(seed);
    for (std::uint64_t i = 0; i < count; ++i) {
        ast::File file;
        ast::Service service;
        service.name = {"s", {}};
        service.endpoints.push_back({{}, false, maker.expr(0), {"xdp", {}}});
        ast::Handler handler;
        for (std::uint64_t n = 0; n <= maker.below(6); ++n) {
            auto stmt = std::make_unique<ast::Stmt>();
            const int depth = static_cast<int>(maker.below(3));
            switch (maker.below(8)) {
                case 0: {
                    ast::Reply reply;
                    for (ast::ExprPtr& each : maker.list(depth)) reply.parts.push_back({std::move(each), std::nullopt});
                    if (maker.below(2) == 1) reply.parts.back().format = ast::Name{"hex", {}};
                    stmt->node = std::move(reply);
                    break;
                }
                case 1: stmt->node = ast::Emit{maker.list(depth)}; break;
                case 2: stmt->node = ast::Return{maker.below(3) == 0 ? nullptr : maker.expr(depth)}; break;
                case 3:
                    stmt->node = ast::Goto{maker.below(2) == 1, maker.name(),
                                           maker.expr(depth),   maker.below(2) == 1 ? maker.expr(depth) : nullptr,
                                           std::nullopt,        nullptr};
                    break;
                case 5: stmt->node = ast::Skip{maker.expr(depth)}; break;
                case 6: {
                    const bool calls = maker.below(2) == 1;
                    ast::Mark mark{maker.expr(depth), maker.below(2) == 1 ? maker.expr(depth) : nullptr, nullptr,
                                   nullptr};
                    (calls ? mark.call : mark.value) = maker.expr(depth);
                    stmt->node = std::move(mark);
                    break;
                }
                case 4: stmt->node = ast::Assign{{"x", {}}, maker.expr(depth)}; break;
                default: {
                    ast::When when{maker.expr(depth), std::nullopt, {}};
                    if (maker.below(2) == 1) when.bind = maker.name();
                    stmt->node = std::move(when);
                }
            }
            handler.body.stmts.push_back(std::move(stmt));
        }
        service.handlers.push_back(std::move(handler));
        ast::Item item;
        item.node = std::move(service);
        file.items.push_back(std::move(item));
        const std::string text = print_chain(file);
        const auto chain = read_chain(text);
        ASSERT_EQ(chain->errors(), "") << "seed " << seed << "\n" << chain->rendered() << text;
        const std::string again = print_chain(*chain->file);
        ASSERT_EQ(again, text) << "seed " << seed;
        const auto yaml = read_yaml(print_yaml(file));
        ASSERT_EQ(yaml->errors(), "") << "seed " << seed << "\n" << yaml->rendered();
        ASSERT_EQ(print_chain(*yaml->file), text) << "seed " << seed;
    }
}

}  // namespace
}  // namespace chainio::syntax::test
