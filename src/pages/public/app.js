// Small comforts; every page works without them.
(() => {
  const loaded = performance.now();

  const countdowns = [...document.querySelectorAll('[data-expires-in-ms]')].map((element) => ({
    element,
    total: Number(element.dataset.expiresInMs),
    chinese: document.documentElement.lang === 'zh-CN',
  }));
  const span = (milliseconds, chinese) => {
    const seconds = Math.max(0, Math.floor(milliseconds / 1000));
    const parts = [
      [Math.floor(seconds / 86400), chinese ? '天' : 'd'],
      [Math.floor((seconds % 86400) / 3600), chinese ? '小时' : 'h'],
      [Math.floor((seconds % 3600) / 60), chinese ? '分' : 'min'],
      [seconds % 60, chinese ? '秒' : 's'],
    ];
    const first = parts.findIndex(([count]) => count > 0);
    const shown = first < 0 ? parts.slice(3) : parts.slice(first, first + 2);
    return shown
      .filter(([count], index) => count > 0 || index === 0)
      .map(([count, unit]) => `${count} ${unit}`)
      .join(' ');
  };
  if (countdowns.length > 0) {
    setInterval(() => {
      for (const { element, total, chinese } of countdowns) {
        const left = total - (performance.now() - loaded);
        element.textContent = left > 0 ? span(left, chinese) : element.dataset.over;
      }
    }, 1000);
  }

  for (const button of document.querySelectorAll('[data-copy]')) {
    button.hidden = !navigator.clipboard;
    button.addEventListener('click', async () => {
      await navigator.clipboard.writeText(button.dataset.copy);
      const told = document.getElementById('told');
      if (told) told.textContent = button.dataset.copied;
      button.querySelector('use')?.setAttribute('href', button.dataset.done);
    });
  }

  for (const input of document.querySelectorAll('input[type="file"][data-preview]')) {
    input.addEventListener('change', async () => {
      const place = document.getElementById(input.dataset.preview);
      const file = input.files?.[0];
      if (!place || !file) return;
      try {
        const bitmap = await createImageBitmap(file);
        const scale = Math.min(1, 800 / Math.max(bitmap.width, bitmap.height));
        const canvas = document.createElement('canvas');
        canvas.width = Math.max(1, Math.round(bitmap.width * scale));
        canvas.height = Math.max(1, Math.round(bitmap.height * scale));
        canvas.getContext('2d').drawImage(bitmap, 0, 0, canvas.width, canvas.height);
        bitmap.close();
        place.replaceChildren(canvas);
        place.className = 'picture';
      } catch {
        // Not a picture the browser can show; the server will say so.
      }
    });
  }

  for (const form of document.querySelectorAll('form[method="post"]')) {
    let sent = false;
    form.addEventListener('submit', (event) => {
      if (sent) event.preventDefault();
      sent = true;
    });
    addEventListener('pageshow', () => {
      sent = false;
    });
  }

  const menus = [...document.querySelectorAll('.bar details')];
  const closeMenus = (except) => {
    for (const menu of menus) if (menu !== except) menu.open = false;
  };
  document.addEventListener('click', (event) => closeMenus(event.target.closest?.('.bar details')));
  document.addEventListener('keydown', (event) => {
    const open = menus.find((menu) => menu.open);
    if (event.key !== 'Escape' || !open) return;
    closeMenus();
    open.querySelector('summary').focus();
  });

  document.querySelector('[data-focus]')?.focus();
})();
