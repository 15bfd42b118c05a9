// The order of the whole: names, then what they stand for, then bodies.
#include "compiler/sema/check.h"

#include "compiler/sema/checker.h"

namespace chainio::sema {

std::optional<checked::Module> Checker::run() {
    check_target();
    after_syntax_errors_ = diags_.has_errors();
    Instance& root = *new_instance(root_, root_name_, "", nullptr);
    apply_defines(root);
    declare_file(root);
    check_artifact_names();
    for (std::uint32_t i = 0; i < constants_.size(); i++) constant(i, constants_[i].name->span);
    for (std::uint32_t i = 0; i < records_.size(); i++)
        if (records_[i].progress == Progress::open) resolve_record(i);
    for (std::uint32_t i = 0; i < texts_.size(); i++) resolve_text(i);
    for (std::uint32_t i = 0; i < files_.size(); i++) check_files(i);
    for (std::uint32_t i = 0; i < sockets_.size(); i++) check_socket(i);
    for (std::uint32_t i = 0; i < classes_.size(); i++)
        check_class(*classes_[i].first, module_.classes[i], *classes_[i].second);
    join_sockets();
    check_numbers();
    join_classes();
    check_merged_classes();
    check_batches();
    for (std::uint32_t i = 0; i < probes_.size(); i++) check_probe(i);
    check_target_of_chains();
    for (std::uint32_t i = 0; i < chains_.size(); i++) chain_signature(i);
    for (std::uint32_t i = 0; i < chains_.size(); i++) check_chain(i);
    for (std::uint32_t i = 0; i < services_.size(); i++) check_service(i);
    check_unused_fns();
    warn_patterns();
    warn_unused();
    if (failed_ && !diags_.has_errors())
        diags_.report(internal, {}, "the spec was refused without a reason", "please report this, with the spec");
    if (failed_ || diags_.has_errors()) return std::nullopt;
    for (auto& w : warnings_)
        diags_.report(w.code, w.span, std::move(w.message), std::move(w.hint), std::move(w.notes));
    if (diags_.has_errors()) return std::nullopt;
    return std::move(module_);
}

std::optional<checked::Module> check(ast::File& root, const std::string& root_name, const Loader& loader,
                                     const CheckOptions& options, diag::Diagnostics& diags) {
    Checker checker(root, root_name, loader, options, diags);
    return checker.run();
}

}  // namespace chainio::sema
