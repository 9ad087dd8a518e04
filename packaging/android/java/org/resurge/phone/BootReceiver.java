package org.resurge.phone;

import android.content.BroadcastReceiver;
import android.content.Context;
import android.content.Intent;
import android.os.Build;
import android.util.Log;
import java.io.File;

/**
 * Goes on recording after the phone was restarted or the app updated, if it was recording before: the service leaves
 * a file while it runs and removes it when a person stops it.
 */
public final class BootReceiver extends BroadcastReceiver {
    /** Also named in mobile_app/home/files.py. */
    static final String RESUME_FILE = "resume-after-boot";

    @Override
    public void onReceive(Context context, Intent intent) {
        String action = intent.getAction();
        if (!Intent.ACTION_BOOT_COMPLETED.equals(action) && !Intent.ACTION_MY_PACKAGE_REPLACED.equals(action)) {
            return;
        }
        if (!new File(context.getFilesDir(), RESUME_FILE).exists()) {
            return;
        }
        Intent service = ServiceIntent.of(context, "", "Recording again after a restart", "boot");
        try {
            if (Build.VERSION.SDK_INT >= 26) {
                context.startForegroundService(service);
            } else {
                context.startService(service);
            }
        } catch (RuntimeException refused) {
            Log.e("resurge", "not started after boot: " + refused);
            Notices.stopped(context, "Not recording", "Android did not let it go on by itself. Open the app to go on.");
        }
    }
}
