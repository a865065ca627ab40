"""What each option means to a user, by its key in the schema, in the order of the help."""

METAVARS = {"dtype": "auto|fp32|bf16|fp16", "device": "auto|cpu|cuda[:N]"}

ENGINE_HELP = {
    "speculative_config": "Who guesses ahead; changes the speed, never the text. suffix, another method that "
    'has weights for MODEL, none, or keys as JSON: \'{"method": "dspark", "model": "PATH"}\'. '
    "Default: suffix; for the built-in model, suffix and a trained drafter in competition.",
    "draft_files": "Directory of draft files: what texts went on with is remembered there, on disk, and drafted where "
    "prompts come back. Joins the drafters above.",
    "dtype": "Precision of weights and arithmetic. auto: the checkpoint's own, bf16 for the built-in model.",
    "device": "auto takes a GPU where there is one.",
    "threads": "CPU threads of the model. Default: what PyTorch finds.",
    "max_model_len": "Tokens of prompt and answer together. Default: what the model was trained for, at most 8192.",
    "max_num_seqs": "Requests that run at the same time.",
    "max_num_batched_tokens": "Tokens of one forward pass. Lower: smoother streams while long prompts come in.",
    "max_waiting": "Requests that may wait for a place; one more is refused.",
    "kv_cache_gib": "Upper bound of the KV cache, in GiB.",
    "acceptance": "match: the text that plain decoding gives for the same seed. ratio: the classical rejection rule.",
    "revision": "Branch, tag or commit, for a model from the hub.",
}

APP_HELP = {
    "served_model_name": "The name clients use. Default: MODEL.",
    "host": "Address to listen on; 0.0.0.0 for every interface.",
    "port": "Port to listen on.",
    "replicas": "Copies of the model, each with its own drafter.",
    "api_keys": 'API keys to tenants, e.g. \'{"secret": "team-a"}\'. Safer in a --config file.',
    "api_keys_file": "YAML file with one line of `key: tenant` for each API key.",
    "limits": "What one HTTP request may ask for, e.g. '{\"max_n\": 4}'.",
}

SOURCE_HELP = {
    "prompts": 'A file, lines of JSON: {"prompt": "…"}, with a "domain" if you like.',
    "magpie": "That many prompts are written by the model itself, as a user would.",
    "maths": "That many word problems, from templates of reasoning-gym.",
    "code": "That many functions of Python's standard library are asked for.",
}

BUILD_HELP = {
    "prompts": "A file: a prompt in each line, or JSON with prompt or messages, or OpenAI's batch format.",
    "raw": "Continue prompts as they are, without the chat template.",
    "paths": "Ways in which each prompt goes on: the likeliest, and others drawn with seeds of the prompt's own.",
    "temperature": "Of those others.",
    "top_p": "Draw them from tokens that hold this much.",
    "max_tokens": "Longest answer.",
    "tenant": "Whose drafts they are, as in the server's api_keys. Default: of a server without keys.",
    "warm_from": "Take over the drafts of another version of the model, with the same tokenizer: a namespace of ls.",
    "budget_bytes": "Bound of DIR; beyond it the least recently used goes. Default: no bound.",
}

RECIPE_HELP = {
    "layers": "Decoder layers of the drafter, each as wide as the target's.",
    "width": "Of a draft model's layers (draft_model).",
    "block_size": "Tokens drafted in one forward (eagle3, draft_model: tokens in a row that are trained or looked at).",
    "taps": "Layers of the target whose outputs the drafter sees.",
    "draft_vocab": "Only the tokens most frequent in answers are drafted, that many; 0 for all.",
    "markov": "How a draft token bends the next one's logits (dspark).",
    "markov_rank": "Width of that head.",
    "slots": "What the slots after the first are fed: fused maps the last feature, mask is learned (p_eagle).",
    "batch": "Answers of one step, on all devices together.",
    "anchors": "Blocks drawn in each answer, others in each epoch.",
    "epochs": "Times through the answers, also a fraction; the learning rate ends at zero with them.",
    "learning_rate": "The highest, after the warm-up.",
    "warmup": "Share of the steps in which the learning rate rises.",
    "clip": "Highest norm of the gradients of a step.",
    "weight_decay": "Of AdamW.",
    "decay": "The k-th token of a block weighs exp(-(k-1)/decay) in the loss.",
    "law_size": "How many of the target's likeliest tokens are told apart; the others count as one.",
    "max_length": "Prompt and answer are cut to that many tokens.",
    "held_out": "Share of the prompts that is never trained on.",
    "evaluate_every": "Steps between two looks at the held-out answers.",
    "precision": "bf16 computes products in bf16 over fp32 weights.",
    "seed": "Decides the first weights, the order of the answers and the anchors.",
}

SITTING_HELP = {
    "minutes": "Stop after that long, and keep what is needed to resume. Default: when the epochs are over.",
    "save_minutes": "How often that is kept meanwhile.",
}

SAMPLING_HELP = {
    "max_tokens": "Stop after that many tokens.",
    "temperature": "0 takes the likeliest token; higher is more varied.",
    "seed": "The same seed gives the same text. Default: a new one each time.",
    "top_p": "Draw from the likeliest tokens that hold this much probability.",
    "top_k": "Draw from the k likeliest tokens; 0 for all.",
    "min_p": "Draw from tokens at least this likely, relative to the likeliest.",
    "repetition_penalty": "Above 1: tokens already there become less likely.",
    "presence_penalty": "Above 0: tokens already in the answer become less likely.",
    "frequency_penalty": "As presence-penalty, for each occurrence.",
    "min_tokens": "No end before that many tokens.",
    "stop": "End before this text; may be given several times.",
}
