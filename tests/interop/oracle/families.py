"""The families of graphs: each function draws one graph around one op."""
import math

MOST_PRODUCTS = 1_500_000  # multiply-adds of one forward pass


# The families. Each draws one graph.
def rows(case, most=70):
    return case.input(case.size(40), case.size(most))


def sequences(case, most=70):
    return case.input(case.size(24), case.size(6), case.size(most))


def images(case, channels=40, extent=10, batch=1):
    return case.input(case.size(36, batch), case.size(extent, 2), case.size(extent, 2), case.size(channels))


def any_input(case):
    return case.random.choice((rows, sequences, lambda case: images(case, 20, 7)))(case)


def dense(case):
    case.squared_loss(case.dense(rows(case), case.size(90)))


def dense_of_sequences(case):
    case.squared_loss(case.dense(sequences(case), case.size(90)))


def dense_with_epilogue(case):
    x = case.dense(case.random.choice((rows, sequences))(case), case.size(70))
    x = case.bias(x) if case.maybe(0.8) else x
    case.squared_loss(case.activate(x))


def convolved(case, x, padding=None, most=5):
    """x, or another image where the product would take too long."""
    while True:
        batch, *extents, channels = case.shape(x)
        size = [min(case.random.randint(1, most), extent) for extent in extents]
        filters, strides = case.size(40), [case.random.choice((1, 1, 2, 3)) for _ in "hw"]
        products = math.prod(size) * channels * filters * batch * math.prod(extents) // math.prod(strides)
        if products <= MOST_PRODUCTS:
            return case.conv2d(x, size, filters, strides, padding or case.random.choice(("valid", "same")))


def conv2d_valid(case):
    case.squared_loss(convolved(case, images(case), "valid"))


def conv2d_same(case):
    case.squared_loss(convolved(case, images(case), "same"))


def conv2d_pointwise(case):
    case.squared_loss(convolved(case, images(case, channels=70), most=1))


def conv2d_3x3(case):
    """What inference computes by Winograd's method is among them."""
    x = case.input(case.size(3), case.size(9, 3), case.size(9, 3), 16 * case.random.randint(1, 3))
    x = case.conv2d(x, [3, 3], 16 * case.random.randint(1, 3), [1, 1], case.random.choice(("valid", "same")))
    case.squared_loss(case.activate(case.bias(x)))


def conv2d_winograd(case):
    """What training computes by Winograd's method in float32, forward and both gradients: windows of 3x3 and 5x5, and more than a few samples.

    No pool: of the millions of windows that all cases have, some have two highest numbers closer than float32 tells apart.
    """
    size = case.random.choice((3, 5))
    padding = case.random.choice(("valid", "same"))
    x = case.input(case.size(36, 9), case.size(8, size), case.size(8, size), 16 * case.random.randint(1, 2) + case.random.choice((0, 0, 1, 7)))
    x = case.conv2d(x, [size, size], 16 * case.random.randint(1, 2) + case.random.choice((0, 0, 1, 7)), [1, 1], padding)
    x = case.bias(x) if case.maybe(0.8) else x
    case.squared_loss(case.activate(x))


def conv2d_of_pictures(case):
    """The first layer: few channels, whose gradient nobody wants. So the gradient before the pool is part of the weights'."""
    x = case.input(case.size(70), case.size(14, 5), case.size(14, 5), case.size(3), gradient=False)
    kernel = case.parameter(*(case.random.randint(1, 5) for _ in "hw"), case.shape(x)[-1], case.size(40), learns=1)
    x = case.node("conv2d", x, kernel, strides=[case.random.randint(1, 2) for _ in "hw"], padding=case.random.choice(("valid", "same")))
    x = case.bias(x) if case.maybe(0.8) else x
    size = [min(case.random.randint(1, 3), extent) for extent in case.shape(x)[1:3]]
    case.squared_loss(case.activate(case.node("max_pool", x, size=size, strides=size, padding="valid")))


def fitting(case, x, most=4):
    window = case.window(most)
    window["size"] = [min(each) for each in zip(window["size"], case.shape(x)[1:3])]
    return window


def conv2d_with_epilogue(case):
    x = convolved(case, images(case))
    x = case.bias(x) if case.maybe(0.8) else x
    first = case.maybe()
    x = case.activate(x) if first else x
    x = case.node("max_pool", x, **fitting(case, x)) if case.maybe(0.7) else x
    case.squared_loss(x if first else case.activate(x))


def residual_block(case):
    """Convolution, normalisation, activation, and the sum of two branches: inference makes one node of each branch."""
    start = case.activate(images(case, 20, 7, batch=3))  # PyTorch normalises no single number
    x = convolved(case, start, "same", 3)
    if case.maybe(0.3):  # a bias that learns would have a gradient of zero here: the mean takes it away again
        x = case.node("bias", x, case.parameter(value=case.numbers_of(case.shape(x)[-1])))
    x = case.activate(case.batch_norm(x), "relu")
    size = [case.random.choice((1, 3)) for _ in "hw"]
    x = case.conv2d(x, size, case.shape(start)[-1], [1, 1], "same")
    x = case.batch_norm(x) if case.maybe() else x
    if case.shape(x) == case.shape(start):
        x = case.node("add", *((start, x) if case.maybe() else (x, start)))
    case.squared_loss(case.activate(x) if case.maybe() else x)


def bias(case):
    case.squared_loss(case.bias(any_input(case)))


def activation(case):
    case.squared_loss(case.activate(any_input(case)))


def add(case):
    x = any_input(case)
    terms = [x, *(case.input(*case.shape(x)) for _ in range(case.random.randint(1, 3)))]
    if case.maybe(0.3):
        terms.append(x)
    case.squared_loss(case.node("add", *terms))


def dropout(case):
    case.squared_loss(case.node("dropout", any_input(case), rate=case.random.choice((0.1, 0.25, 0.5, 0.9))))


def reshape(case):
    x = case.activate(any_input(case))
    batch, *others = case.shape(x)
    if case.maybe():
        x = case.node("flatten", x)
    else:
        case.random.shuffle(others)
        x = case.node("reshape", x, shape=[batch, *others, 1] if case.maybe(0.3) else [batch, *others])
    case.squared_loss(case.dense(x, case.size(8)))


def concat(case):
    x = any_input(case)
    parts = [x, *(case.input(*case.shape(x)[:-1], case.size(30)) for _ in range(case.random.randint(1, 3)))]
    case.squared_loss(case.node("concat", *parts))


def embedding(case):
    vocabulary = case.size(60)
    ids = case.integers(case.size(24), *([case.size(7)] if case.maybe(0.7) else []), limit=vocabulary)
    x = case.node("embedding", ids, case.parameter(vocabulary, case.size(70), learns=1))
    case.squared_loss(case.activate(x) if case.maybe() else x)


def recurrent(cell, gates):
    def draw(case):
        batch, steps, units = case.size(24), case.size(6), case.size(40)
        inner = case.maybe(0.4)
        z = case.dense(case.input(batch, steps, case.size(20)), gates * units) if inner else case.input(batch, steps, gates * units)
        inputs = [z, case.weights(units, gates * units)]
        bias, initial = cell == "gru" and case.maybe(), case.maybe()
        inputs += [case.parameter(2, gates * units)] if bias else []
        inputs += [case.input(batch, units, gradient=False) for _ in range(2 if cell == "lstm" else 1)] if initial else []
        function = case.function() if cell == "rnn" else "tanh"
        y = case.node("recurrent", *inputs, cell=cell, function=function, bias=bias, initial=initial, reverse=case.maybe(0.3))
        if cell == "lstm" and case.maybe():
            case.output(f"{y}:3")
        read = case.random.choice(("sequence", "last", "both"))
        if read == "both":
            y = case.node("concat", case.node("flatten", y), f"{y}:1")
        case.squared_loss(f"{y}:1" if read == "last" else y)

    draw.__name__ = cell
    return draw


rnn, lstm, gru = recurrent("rnn", 1), recurrent("lstm", 4), recurrent("gru", 3)


def max_pool(case):
    x = images(case)
    case.squared_loss(case.node("max_pool", x, **fitting(case, x)))


def avg_pool(case):
    x = images(case)
    case.squared_loss(case.node("avg_pool", x, **fitting(case, x)))


def batch_norm(case):
    x = case.input(case.size(36, 3), *case.random.choice(([], [5], [3, 4], [1, 7])), case.size(40))
    x = case.batch_norm(x)
    case.squared_loss(case.activate(x) if case.maybe() else x)


def softmax(case):
    case.squared_loss(case.node("softmax", case.random.choice((rows, sequences))(case)))


def softmax_cross_entropy(case):
    x = case.random.choice((rows, sequences))(case)
    logits = case.output(case.dense(x, case.size(300, 2)) if case.maybe() else x)
    labels = case.integers(*case.shape(logits)[:-1], limit=case.shape(logits)[-1], training=True)
    case.output(case.node("correct_count", logits, labels))
    case.nodes[-1]["training"] = True
    loss = case.node("softmax_cross_entropy", logits, labels)
    case.loss(loss)
    case.output(f"{loss}:1")


def cross_entropy_of_words(case):
    """So many classes, and no logits wanted: on cpu the dense layer is joined with its loss."""
    ids = case.integers(case.size(20), case.size(6), limit=30)
    x = case.output(case.node("embedding", ids, case.parameter(30, case.size(40), learns=1)))
    logits = case.dense(x, 511 + case.size(300))
    logits = case.bias(logits) if case.maybe() else logits
    labels = case.integers(*case.shape(logits)[:-1], limit=case.shape(logits)[-1], training=True)
    if case.maybe():
        case.output(case.node("correct_count", logits, labels))
        case.nodes[-1]["training"] = True
    case.loss(case.node("softmax_cross_entropy", logits, labels))


def mean_squared_error(case):
    x = any_input(case)
    target = case.input(*case.shape(x))
    case.loss(case.node("mean_squared_error", x, target))
    case.nodes[-2]["training"] = True


def l2_penalty(case):
    x = case.bias(case.dense(rows(case), case.size(40)))
    weights = [node["name"] for node in case.nodes if node["op"] == "parameter"]
    weights = case.random.sample(weights, case.random.randint(1, len(weights)))
    case.squared_loss(x)
    case.loss(case.node("l2_penalty", case.last, *weights, l2=case.random.choice((1e-4, 0.01, 0.5))))


PRODUCTS = (dense, dense_of_sequences, dense_with_epilogue, conv2d_valid, conv2d_same, conv2d_pointwise, rnn, lstm, gru)
ALL = (*PRODUCTS, conv2d_3x3, conv2d_winograd, conv2d_of_pictures, conv2d_with_epilogue, residual_block, bias, activation, add, reshape, concat, embedding,
       max_pool, avg_pool, batch_norm, softmax, softmax_cross_entropy, cross_entropy_of_words, mean_squared_error, l2_penalty)  # fmt: skip
