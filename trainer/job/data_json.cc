#include "trainer/job/data_json.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <set>
#include <string_view>
#include <utility>
#include <vector>

#include "trainer/config/field_reader.h"
#include "trainer/data/class_name.h"
#include "trainer/job/csv_json.h"
#include "trainer/job/pipeline_json.h"

namespace trainyard::engine {
namespace {

using nlohmann::json;
using Format = DataConfig::Format;

// range: [begin, end), both counted from 0.
void ReadRange(FieldReader& fields, DataSplit& split) {
  if (fields.Get("range") == nullptr) return;
  const std::vector<int64_t> range = fields.IntegerList("range", {.min = 0, .max = int64_t{1} << 40}, 2, 2);
  if (range.size() != 2) return;
  split.begin = range[0];
  split.end = range[1];
  if (split.begin >= split.end) {
    fields.Error("range", fmt::format("found [{}, {}], expected [begin, end] with begin below end", split.begin, split.end));
  }
}

// fraction: [begin, end), shares of all tokens of the files.
void ReadFraction(FieldReader& fields, DataSplit& split) {
  const json* value = fields.Get("fraction");
  if (value == nullptr) return;
  const auto share = [&](size_t i) { return AsNumber((*value)[i], {.min = 0, .max = 1}); };
  if (!value->is_array() || value->size() != 2 || !share(0) || !share(1) || *share(0) >= *share(1)) {
    const std::string found =
        value->is_array() && value->size() == 2 ? fmt::format("[{}, {}]", Found((*value)[0]), Found((*value)[1])) : Found(*value);
    fields.Error("fraction", fmt::format("found {}, expected [begin, end] with 0 <= begin < end <= 1, such as [0, 0.9]", found));
    return;
  }
  split.fraction_begin = *share(0);
  split.fraction_end = *share(1);
  if (fields.Get("range") != nullptr) fields.Error("fraction", "found both range and fraction, expected one of them");
}

void ReadFiles(FieldReader& fields, std::string_view example, DataSplit& split) {
  split.files = fields.TextList("files");
  const json* files = fields.Get("files");
  if (files == nullptr || (files->is_array() && files->empty()))
    fields.Error("files", fmt::format("found no names, expected one or more files, such as [{}]", example));
}

// Everything of a split but `augment`, which is one of the short forms of stages.
DataSplit ReadSplit(Format format, const char* name, FieldReader& fields) {
  DataSplit split;
  switch (format) {
    case Format::kIdx:
      split.images = fields.Text("images");
      split.labels = fields.Text("labels");
      break;
    case Format::kNumpy:
      split.archive = fields.Text("file", "");
      split.images = fields.Text("images");
      split.labels = fields.Text("labels");
      break;
    case Format::kCifar10:
      ReadFiles(fields, "data_batch_1.bin", split);
      break;
    case Format::kTfRecord:
      ReadFiles(fields, "train-00000.tfrecord", split);
      break;
    case Format::kParquet:
      ReadFiles(fields, "train-00000.parquet", split);
      break;
    case Format::kCsv:
      ReadFiles(fields, "train.csv", split);
      return split;
    case Format::kText:
      ReadFiles(fields, "ptb.train.txt", split);
      ReadFraction(fields, split);
      break;
    case Format::kStore:
      split.folder = fields.Text("folder", name);
      break;
    case Format::kImages:
      split.folder = fields.Text("folder", "");
      return split;
    case Format::kSynthetic:
      split.examples = fields.Integer("examples", {.min = 1, .max = int64_t{1} << 32});
      return split;
  }
  ReadRange(fields, split);
  return split;
}

FeatureNames ReadFeatures(FieldReader& fields) {
  FeatureNames names;
  const json* value = fields.Get("features");
  if (value == nullptr) return names;
  FieldReader inside = fields.Inside("features", *value);
  names.image = inside.Text("image", names.image);
  names.label = inside.Text("label", names.label);
  inside.RefuseOthers();
  return names;
}

std::vector<std::string> ReadClasses(FieldReader& fields) {
  std::vector<std::string> classes = fields.TextList("classes");
  std::set<std::string_view> seen;
  for (const std::string& name : classes) {
    if (!IsClassName(name)) {
      fields.Error("classes",
                   fmt::format("found {}, expected names of 1 to 256 bytes of UTF-8 without control characters", Found(json(name))));
    } else if (!seen.insert(name).second) {
      fields.Error("classes", fmt::format("found {} again, expected a name of its own for each class", Found(json(name))));
    }
  }
  return classes;
}

const char* ExpectedSplit(Format format) {
  switch (format) {
    case Format::kIdx:
      return "an object such as {images: FILE, labels: FILE, range: [0, 9000]}";
    case Format::kCifar10:
      return "an object such as {files: [data_batch_1.bin, data_batch_2.bin]}";
    case Format::kTfRecord:
      return "an object such as {files: [train-00000.tfrecord, train-00001.tfrecord]}";
    case Format::kNumpy:
      return "an object such as {images: x.npy, labels: y.npy}, or {file: mnist.npz, images: x_train, labels: y_train}";
    case Format::kParquet:
      return "an object such as {files: [train-00000.parquet, train-00001.parquet]}";
    case Format::kCsv:
      return "an object such as {files: [train.csv]}";
    case Format::kText:
      return "an object such as {files: [ptb.train.txt]}";
    case Format::kStore:
      return "an object such as {} or {folder: train, range: [0, 9000]}";
    case Format::kImages:
      return "an object such as {folder: train}";
    case Format::kSynthetic:
      break;
  }
  return "an object such as {examples: 1000}";
}

// shuffle, cache, prefetch and train.augment: short for the usual pipeline with these stages.
PipelineConfig ReadShortForms(Format format, FieldReader& fields, const AugmentConfig& augment) {
  PipelineConfig pipeline;
  if (format == Format::kText) {  // a stream in memory, of one order
    pipeline.shuffle.kind = ShuffleConfig::Kind::kNone;
    pipeline.prefetch = ParsePrefetch(fields, "prefetch");
    return pipeline;
  }
  if (!fields.Bool("shuffle", true)) pipeline.shuffle.kind = ShuffleConfig::Kind::kNone;
  // CIFAR-10's records and CSV's rows are in memory in any case, pictures only if one asks for it.
  if (format != Format::kCifar10 && format != Format::kCsv && !fields.Bool("cache", format != Format::kImages)) pipeline.examples.clear();
  if (augment.any()) pipeline.examples.emplace_back(MapConfig{.augment = augment, .normalize = {}});
  pipeline.prefetch = ParsePrefetch(fields, "prefetch");
  return pipeline;
}

ImageOptions ReadImageOptions(FieldReader& fields) {
  ImageOptions images;
  images.fit = fields.Choice<ImageFit>("fit", {{"crop", ImageFit::kCrop}, {"stretch", ImageFit::kStretch}}, images.fit);
  if (fields.Get("size") != nullptr) {
    const std::vector<int64_t> size = fields.IntegerList("size", {.min = 1, .max = kMaxImageSide}, 2, 2);
    if (size.size() == 2) {
      images.height = size[0];
      images.width = size[1];
    }
  }
  if (fields.Get("channels") != nullptr) images.channels = fields.Integer("channels", {.min = 1, .max = kRgbChannels});
  return images;
}

// evalFraction and seed, of formats that cut one set in two.
void ReadSetCut(FieldReader& fields, DataConfig& data) {
  data.split_seed = static_cast<uint64_t>(fields.Integer("seed", {.min = 0}, static_cast<int64_t>(data.split_seed)));
  if (fields.Get("evalFraction") == nullptr) return;
  data.eval_fraction = fields.Number("evalFraction", {.min = 0, .max = 1, .above = true, .below = true});
  if (fields.Get("eval") != nullptr) {
    fields.Error("evalFraction", "found beside eval, expected one of them: a share of the training's examples, or examples of their own");
  }
  data.eval = data.train;
}

void RefuseShortForms(FieldReader& fields, bool augment) {
  for (const char* name : {"shuffle", "cache", "prefetch"}) {
    if (fields.Get(name) != nullptr) fields.Error(name, "found beside pipeline, expected as one of its stages");
  }
  if (augment) fields.Error("train.augment", "found beside pipeline, expected as a map stage of it, such as {map: {flip: true, shift: 4}}");
}

}  // namespace

DataConfig ParseData(const json& value, std::string path, FieldErrors& errors) {
  DataConfig data;
  FieldReader fields(value, std::move(path), errors);
  const size_t errors_before = errors.size();
  data.format = fields.Choice<Format>("format", {{"idx", Format::kIdx},
                                                 {"cifar10", Format::kCifar10},
                                                 {"tfrecord", Format::kTfRecord},
                                                 {"numpy", Format::kNumpy},
                                                 {"parquet", Format::kParquet},
                                                 {"text", Format::kText},
                                                 {"store", Format::kStore},
                                                 {"images", Format::kImages},
                                                 {"csv", Format::kCsv},
                                                 {"synthetic", Format::kSynthetic}});
  if (errors.size() > errors_before) return data;  // the format says which other fields there are
  if (data.format == Format::kSynthetic) {
    data.noise = fields.Number("noise", {.min = 0}, data.noise);
  } else {
    data.dir = fields.Text("dir", "");
  }
  if (data.format == Format::kTfRecord || data.format == Format::kParquet) data.features = ReadFeatures(fields);
  if (data.format == Format::kImages) data.images = ReadImageOptions(fields);
  if (data.format == Format::kCsv) data.csv = ParseCsvOptions(fields);
  const bool text = data.format == Format::kText;
  if (text) {
    data.tokens = fields.Choice<TokenKind>("tokens", {{"words", TokenKind::kWords}, {"characters", TokenKind::kCharacters}}, data.tokens);
    data.vocabulary = fields.Integer("vocabulary", {.min = 1, .max = 1 << 24}, data.vocabulary);
  }
  if (!text) data.classes = ReadClasses(fields);
  bool has_augment = false;
  AugmentConfig augment;
  const bool has_whole_dir = data.format == Format::kImages;  // a split need not say more
  if (const json* train = has_whole_dir ? fields.Get("train") : fields.Require("train", ExpectedSplit(data.format))) {
    FieldReader split = fields.Inside("train", *train);
    data.train = ReadSplit(data.format, "train", split);
    if (const json* found = text ? nullptr : split.Get("augment")) {
      has_augment = true;
      augment = ParseAugment(split.Inside("augment", *found));
    }
    split.RefuseOthers();
  }
  if (const json* eval = fields.Get("eval")) {
    FieldReader split = fields.Inside("eval", *eval);
    data.eval = ReadSplit(data.format, "eval", split);
    split.RefuseOthers();
  }
  if (data.format == Format::kImages || data.format == Format::kCsv) ReadSetCut(fields, data);
  if (const json* pipeline = text ? nullptr : fields.Get("pipeline")) {
    data.pipeline = ParsePipeline(*pipeline, fields.PathOf("pipeline"), data.format, errors);
    RefuseShortForms(fields, has_augment);
  } else {
    data.pipeline = ReadShortForms(data.format, fields, augment);
  }
  fields.RefuseOthers();
  return data;
}

}  // namespace trainyard::engine
