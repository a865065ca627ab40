#!/bin/sh
# The HTTP API with curl: a chat answer with its draft statistics, the same without drafts, a stream, the metrics.
#
#     paradraft serve          # in another terminal
#     sh examples/curl.sh
#
# OPENAI_BASE_URL and OPENAI_API_KEY are read where the server is elsewhere or wants a key.
set -eu
url=${OPENAI_BASE_URL:-http://127.0.0.1:8000/v1}
key=${OPENAI_API_KEY:-none}
ask='"model": "smollm2-135m", "max_tokens": 48, "temperature": 0,
     "messages": [{"role": "user", "content": "Repeat this list and add two colours: red, green, blue, red, green, blue."}]'

post() {
    curl --silent --show-error --fail-with-body --no-buffer "$url/chat/completions" \
        --header "Authorization: Bearer $key" --header 'Content-Type: application/json' --data "$1"
    echo
}

echo '# with drafts, and what came of them'
post "{$ask, \"return_metrics\": true}"

echo '# without drafts: the same text'
post "{$ask, \"speculative\": {\"enabled\": false}}"

echo '# as a stream'
post "{$ask, \"stream\": true}"

echo '# counters, under the names of vLLM'
curl --silent --show-error --fail-with-body --header "Authorization: Bearer $key" "${url%/v1}/metrics" |
    grep '^vllm:spec_decode'
