// `spec.training.data.pipeline`, and the short fields that stand for stages, as JSON → plain data.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

#include "trainer/config/field_reader.h"
#include "trainer/data/data_config.h"

namespace trainyard::engine {

// A list of stages: names, or objects of one name each. Every mistake in a stage, and in the order
// of the stages, goes to `errors`.
PipelineConfig ParsePipeline(const nlohmann::json& value, const std::string& path, DataConfig::Format format, FieldErrors& errors);

// {flip, shift}
AugmentConfig ParseAugment(FieldReader fields);
// A number of batches, or auto.
PrefetchConfig ParsePrefetch(FieldReader& fields, std::string_view name);

// Whether the examples of such a split lie in a list of files.
bool HasFileList(DataConfig::Format format);

}  // namespace trainyard::engine
