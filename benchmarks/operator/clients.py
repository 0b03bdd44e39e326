"""Several clients of the API server at once, so that one client is not what is measured."""

import threading


def start_clients(plane, clients, items, call):
    """Threads that call call(api, item) for all items between them, each with a connection of its own; they are started, not joined."""
    items = list(items)

    def work(first):
        api = plane.api()
        for item in items[first::clients]:
            call(api, item)
        api.close()

    threads = [threading.Thread(target=work, args=(first,)) for first in range(clients)]
    for thread in threads:
        thread.start()
    return threads


def join(threads):
    for thread in threads:
        thread.join()
