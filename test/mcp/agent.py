"""A client of the protocol: python agent.py mcp MODE, or python agent.py fastmcp. Reads an act in each line, and writes an answer in each."""
import asyncio
import json
import os
import sys

import httpx2

token = ''


class Bearer(httpx2.Auth):
    def auth_flow(self, request):
        request.headers['authorization'] = f'Bearer {token}'
        yield request


def open_client(kind, mode):
    url = os.environ['MCP_URL']
    if kind == 'fastmcp':
        from fastmcp import Client
        from fastmcp.client.transports import StreamableHttpTransport
        return Client(StreamableHttpTransport(url, auth=Bearer()), **({'mode': mode} if mode else {}))
    from mcp import Client
    from mcp.client.streamable_http import streamable_http_client
    return Client(streamable_http_client(url, http_client=httpx2.AsyncClient(auth=Bearer(), timeout=30)), mode=mode)


def reasons(error):
    inner = getattr(error, 'exceptions', None)
    return '; '.join(map(reasons, inner)) if inner else f'{type(error).__name__}: {error}'


async def act(client, kind, name, tool):
    if name == 'begin':
        await client.__aenter__()
        return {}
    if name == 'list':
        listed = await client.list_tools()
        return {'names': [tool.name for tool in getattr(listed, 'tools', listed)]}
    seen = []

    async def progress(*given):
        seen.append(given)

    called = await client.call_tool(tool, {}, **{'progress_handler' if kind == 'fastmcp' else 'progress_callback': progress})
    if getattr(called, 'is_error', False):
        raise RuntimeError(called.content[0].text)
    return {'text': called.content[0].text, 'progress': len(seen)}


async def main(kind, mode=None):
    global token
    client = open_client(kind, mode)
    while line := await asyncio.to_thread(sys.stdin.readline):
        given = json.loads(line)
        token = given['token']
        try:
            answer = await act(client, kind, given['act'], given.get('tool'))
        except BaseException as error:
            answer = {'error': reasons(error)}
        print(json.dumps(answer), flush=True)


asyncio.run(main(*sys.argv[1:]))
